//! Readings whose dates may have the month or the day first: held until the log tells which.

use jiff::tz::TimeZone;

use super::super::DateOrder;
use super::super::clock::{DateOrders, Stamp};
use super::super::local_time::{self, LoggedTime};
use super::{Problem, Rows, Settings};
use crate::PowerRow;

/// Readings that are held at most; a log of more must be told the order.
const MAX_HELD: usize = 2_000_000;

/// Readings without a decided date.
#[derive(Debug)]
pub(in super::super) struct Undated {
    settings: Settings,
    orders: DateOrders,
    held: Vec<Held>,
}

/// A reading, and whether its date is UTC rather than local.
type Held = (LoggedTime, bool, PowerRow);

impl Undated {
    pub(in super::super) fn new(settings: Settings) -> Self {
        Self { settings, orders: DateOrders::default(), held: Vec::new() }
    }

    /// Takes a reading; `row.t_ns` is filled in here, at once where the order is named.
    pub(in super::super) fn push(
        &mut self,
        time: LoggedTime,
        is_utc: bool,
        row: PowerRow,
        rows: &mut Rows,
    ) -> Result<(), Problem> {
        if let Some(order) = self.settings.date_order {
            return self.place(order, (time, is_utc, row), rows);
        }
        if self.held.len() == MAX_HELD {
            return Err(Problem::Stop(format!(
                "more than {MAX_HELD} dates may have the month or the day first; name the order \
                 (--date-order month-first or day-first)"
            )));
        }
        self.orders.add(time);
        self.held.push((time, is_utc, row));
        Ok(())
    }

    /// Decides the order and gives the rows.
    pub(in super::super) fn finish(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        if self.held.is_empty() {
            return Ok(());
        }
        let order = self.orders.decide(None).map_err(Problem::Stop)?;
        rows.note(format!("dates are {}", order.name()));
        for held in std::mem::take(&mut self.held) {
            self.place(order, held, rows)?;
        }
        Ok(())
    }

    fn place(
        &self,
        order: DateOrder,
        (time, is_utc, mut row): Held,
        rows: &mut Rows,
    ) -> Result<(), Problem> {
        let local = time
            .date_time(order)
            .ok_or_else(|| format!("a date does not exist {}", order.name()))?;
        row.t_ns = match is_utc {
            true => local_time::to_timestamp(&TimeZone::UTC, local)?.nanos(),
            false => self.settings.resolve(Stamp::Local(local))?,
        };
        rows.push(row);
        Ok(())
    }
}
