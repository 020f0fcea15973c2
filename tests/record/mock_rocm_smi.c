/* A library with the calls of ROCm SMI that the recorder uses: two boards without a GPU, the first of them
 * in two partitions. Written from rocm_smi.h, not from the recorder. Board 0 tells its power of an instant,
 * board 1 a mean; both rise by one watt a read, and the counters by 65,536 units of 2^-16 J.
 */
#include <stdint.h>
#include <stddef.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGS = 1, NOT_SUPPORTED = 2 };
enum { DEVICES = 3 };

static uint64_t reads[DEVICES];

int rsmi_init(uint64_t flags) { return flags == 0 ? SUCCESS : INVALID_ARGS; }

int rsmi_num_monitor_devices(uint32_t *count) {
    *count = DEVICES;
    return SUCCESS;
}

int rsmi_dev_pci_id_get(uint32_t device, uint64_t *address) {
    /* Devices 0 and 1 differ in the partition only, bits 31 to 28. */
    static const uint64_t addresses[DEVICES] = {0x100000500, 0x110000500, 0x100000600};
    *address = addresses[device];
    return SUCCESS;
}

int rsmi_dev_power_get(uint32_t device, uint64_t *microwatts, uint32_t *type) {
    *microwatts = (device == 0 ? 500000000 : 600000000) + 1000000 * reads[device]++;
    *type = device == 0 ? 1 : 0;
    return SUCCESS;
}

int rsmi_dev_energy_count_get(uint32_t device, uint64_t *count, float *unit_uj, uint64_t *stamp) {
    *count = 65536 * reads[device];
    *unit_uj = 15.2587890625f;
    *stamp = 0;
    return SUCCESS;
}

int rsmi_dev_temp_metric_get(uint32_t device, uint32_t sensor, uint32_t metric, int64_t *millicelsius) {
    (void)device;
    if (metric != 0 || sensor != 1) return NOT_SUPPORTED;
    *millicelsius = 71500;
    return SUCCESS;
}

int rsmi_dev_memory_usage_get(uint32_t device, uint32_t type, uint64_t *bytes) {
    (void)device;
    if (type != 0) return INVALID_ARGS;
    *bytes = 3ULL << 30;
    return SUCCESS;
}

int rsmi_dev_busy_percent_get(uint32_t device, uint32_t *busy) {
    (void)device;
    *busy = 87;
    return SUCCESS;
}

int rsmi_dev_name_get(uint32_t device, char *name, size_t length) {
    (void)device;
    strncpy(name, "Mock MI250X", length);
    return SUCCESS;
}
