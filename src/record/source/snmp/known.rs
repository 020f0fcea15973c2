//! Objects whose unit is documented.
//!
//! Sources: Schneider Electric (APC), PowerNet-MIB, the descriptions of the objects named below; Raritan,
//! PDU2-MIB, `SensorUnitsEnumeration` and the descriptions of `inletSensorDecimalDigits` and
//! `outletSensorDecimalDigits`.

use snmp2::Oid;

use super::unit::CountUnit;

/// What is documented of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Known {
    /// Its unit is fixed.
    Unit { object: &'static str, mib: &'static str, unit: &'static str },
    /// It is no power and no energy that was drawn.
    NotPower { object: &'static str, mib: &'static str, what: &'static str },
    /// The PDU gives its unit and its decimal digits in two further objects.
    Described { object: &'static str, mib: &'static str, unit: Oid<'static>, digits: Oid<'static> },
}

const POWERNET: &str = "PowerNet-MIB";
const PDU2: &str = "PDU2-MIB";

/// enterprises.apc.products.hardware
const APC: [u64; 9] = [1, 3, 6, 1, 4, 1, 318, 1, 1];

/// enterprises.raritan.pdu2
const RARITAN: [u64; 8] = [1, 3, 6, 1, 4, 1, 13742, 6];

const APPARENT: &str =
    "apparent power (VA), more than the power that is drawn; expected active power";
const PEAK: &str = "the largest power since a reset, not the power now";
const CURRENT: &str = "current (0.1 A), not power";

/// A column of PowerNet-MIB below [`APC`].
struct Column {
    arcs: &'static [u64],
    object: &'static str,
    /// Its unit, or what it is instead of power.
    unit: Result<&'static str, &'static str>,
}

const fn column(
    arcs: &'static [u64],
    object: &'static str,
    unit: Result<&'static str, &'static str>,
) -> Column {
    Column { arcs, object, unit }
}

const POWERNET_COLUMNS: [Column; 13] = [
    column(&[12, 1, 16], "rPDUIdentDevicePowerWatts", Ok("W")),
    column(&[12, 1, 18], "rPDUIdentDevicePowerVA", Err(APPARENT)),
    column(&[12, 2, 3, 1, 1, 2], "rPDULoadStatusLoad", Err(CURRENT)),
    column(&[26, 4, 3, 1, 5], "rPDU2DeviceStatusPower", Ok("0.01kW")),
    column(&[26, 4, 3, 1, 6], "rPDU2DeviceStatusPeakPower", Err(PEAK)),
    column(&[26, 4, 3, 1, 9], "rPDU2DeviceStatusEnergy", Ok("0.1kWh")),
    column(&[26, 4, 3, 1, 16], "rPDU2DeviceStatusApparentPower", Err(APPARENT)),
    column(&[26, 6, 3, 1, 5], "rPDU2PhaseStatusCurrent", Err(CURRENT)),
    column(&[26, 6, 3, 1, 7], "rPDU2PhaseStatusPower", Ok("0.01kW")),
    column(&[26, 9, 4, 3, 1, 6], "rPDU2OutletMeteredStatusCurrent", Err(CURRENT)),
    column(&[26, 9, 4, 3, 1, 7], "rPDU2OutletMeteredStatusPower", Ok("W")),
    column(&[26, 9, 4, 3, 1, 8], "rPDU2OutletMeteredStatusPeakPower", Err(PEAK)),
    column(&[26, 9, 4, 3, 1, 11], "rPDU2OutletMeteredStatusEnergy", Ok("0.1kWh")),
];

/// Sensors of PDU2-MIB below [`RARITAN`]: the column of their values, and the columns that describe it.
struct Sensor {
    object: &'static str,
    values: [u64; 5],
    unit: [u64; 5],
    digits: [u64; 5],
}

const PDU2_SENSORS: [Sensor; 2] = [
    Sensor {
        object: "measurementsInletSensorValue",
        values: [5, 2, 3, 1, 4],
        unit: [3, 3, 4, 1, 6],
        digits: [3, 3, 4, 1, 7],
    },
    Sensor {
        object: "measurementsOutletSensorValue",
        values: [5, 4, 3, 1, 4],
        unit: [3, 5, 4, 1, 6],
        digits: [3, 5, 4, 1, 7],
    },
];

/// What is documented of the object with these numbers.
pub(super) fn find(arcs: &[u64]) -> Option<Known> {
    if let Some(rest) = arcs.strip_prefix(&APC) {
        let is_it = |column: &&Column| {
            rest.strip_prefix(column.arcs).is_some_and(|index| !index.is_empty())
        };
        let &Column { object, unit, .. } = POWERNET_COLUMNS.iter().find(is_it)?;
        return Some(match unit {
            Ok(unit) => Known::Unit { object, mib: POWERNET, unit },
            Err(what) => Known::NotPower { object, mib: POWERNET, what },
        });
    }
    let rest = arcs.strip_prefix(&RARITAN)?;
    PDU2_SENSORS.iter().find_map(|sensor| {
        // PDU, inlet or outlet, and type of sensor.
        let index = rest.strip_prefix(&sensor.values).filter(|index| index.len() == 3)?;
        let sibling = |column: &[u64]| {
            let arcs: Vec<u64> = RARITAN.iter().chain(column).chain(index).copied().collect();
            Oid::from(&arcs).ok()
        };
        let (unit, digits) = (sibling(&sensor.unit)?, sibling(&sensor.digits)?);
        Some(Known::Described { object: sensor.object, mib: PDU2, unit, digits })
    })
}

/// The unit that values of `SensorUnitsEnumeration` and of decimal digits give.
pub(super) fn raritan_unit(unit: f64, digits: f64) -> Result<CountUnit, String> {
    let symbol = match unit {
        3.0 => "W",
        5.0 => "Wh",
        4.0 => return Err(format!("is {APPARENT}")),
        _ => {
            return Err(format!(
                "is measured in unit {unit} of SensorUnitsEnumeration; expected watt (3) or wattHour (5)"
            ));
        }
    };
    if !(0.0..=9.0).contains(&digits) {
        return Err(format!("has {digits} decimal digits; expected 0 to 9"));
    }
    let number =
        if digits == 0.0 { "1".to_owned() } else { format!("0.{:0>1$}", 1, digits as usize) };
    CountUnit::parse(&format!("{number}{symbol}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Known> {
        let arcs: Vec<u64> = text.split('.').map(|arc| arc.parse().unwrap()).collect();
        find(&arcs)
    }

    #[test]
    fn documented_objects_are_found_by_their_column() {
        let unit = |known| match known {
            Some(Known::Unit { unit, .. }) => unit,
            other => panic!("{other:?}"),
        };
        assert_eq!(unit(of("1.3.6.1.4.1.318.1.1.26.4.3.1.5.1")), "0.01kW");
        assert_eq!(unit(of("1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.12")), "W");
        assert_eq!(unit(of("1.3.6.1.4.1.318.1.1.12.1.16.0")), "W");
        assert!(matches!(of("1.3.6.1.4.1.318.1.1.12.1.18.0"), Some(Known::NotPower { .. })));
        // A column without an index, another column, another maker.
        assert_eq!(of("1.3.6.1.4.1.318.1.1.26.4.3.1.5"), None);
        assert_eq!(of("1.3.6.1.4.1.318.1.1.26.4.3.1.55.1"), None);
        assert_eq!(of("1.3.6.1.4.1.8072.1"), None);
    }

    #[test]
    fn raritan_describes_its_sensors() {
        let known = of("1.3.6.1.4.1.13742.6.5.4.3.1.4.1.7.5");
        let Some(Known::Described { unit, digits, .. }) = known else { panic!("{known:?}") };
        assert_eq!(unit.to_string(), "1.3.6.1.4.1.13742.6.3.5.4.1.6.1.7.5");
        assert_eq!(digits.to_string(), "1.3.6.1.4.1.13742.6.3.5.4.1.7.1.7.5");
        assert_eq!(raritan_unit(3.0, 0.0).unwrap().to_string(), "W");
        assert_eq!(raritan_unit(3.0, 1.0).unwrap().to_string(), "0.1W");
        assert_eq!(raritan_unit(5.0, 2.0).unwrap().to_string(), "0.01Wh");
        raritan_unit(4.0, 0.0).unwrap_err();
        raritan_unit(2.0, 0.0).unwrap_err();
        raritan_unit(3.0, 10.0).unwrap_err();
    }
}
