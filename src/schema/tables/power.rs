//! `power.parquet`.

use super::declare;

declare! {
    /// Power samples and energy counters of every source.
    POWER, power_column, file "power.parquet", row "one reading of one device",
    sort &["source", "device", "t"],
    t Time Timestamp Required "When the reading was taken, on the source's clock.";
    source Text None Required "Id of a power source in run.json.";
    device Text None Required "Device within the source, such as gpu0 or node.";
    power_w F64 Watt Nullable "Power; null if it could not be read.";
    energy_j F64 Joule Optional "Cumulative energy counter.";
    temperature_c F32 Celsius Optional "Temperature of the device.";
    sm_clock_mhz U32 Megahertz Optional "Clock of the compute units.";
    mem_clock_mhz U32 Megahertz Optional "Clock of the memory.";
    memory_used_bytes U64 Byte Optional "Device memory in use.";
    utilization_percent F32 Percent Optional "Utilization as the source defines it.";
    throttle_reasons U64 None Optional "Bit mask of throttle reasons as the source defines it.";
    read_ns U64 Nanosecond Optional "How long the read took; t is its middle.";
}
