/* A library with the calls of amd-smi that the recorder uses: two boards without a GPU, the first of them
 * in two partitions, and the second die of a package. Written from amdsmi.h, not from the recorder.
 *
 * The power of a board is 500 W (board 0) or 600 W (board 1) plus one watt a read; its counter rises by
 * 1000 units of 2^-16 J a read. MOCK_AMD_RELEASE chooses the header: 24 (ROCm 6.3), 25 (6.4) or 26 (7.0).
 * With MOCK_AMD_FAULTS set,
 *   board 0: the power of read 10 is "not supported" (the largest value); the counter wraps after 2^32
 *            units, which it reaches at read 20;
 *   board 1: the counter of read 5 fails; from read 15 on the board is lost.
 * With MOCK_AMD_LOG set, a line "BOARD READ" is appended to that file for each read.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

enum { SUCCESS = 0, INVAL = 1, NOT_SUPPORTED = 2, IO = 12, NOT_FOUND = 31 };
enum { HANDLES = 4 };

typedef struct {
    unsigned index;
    unsigned long long reads;
} processor_t;

/* Processor 1 is a partition of board 0, processor 3 the second die of another package. */
static processor_t processors[HANDLES] = {{0, 0}, {0, 0}, {1, 0}, {2, 0}};
static int sockets[3] = {0, 1, 2};

static unsigned release_of_header(void) {
    const char *text = getenv("MOCK_AMD_RELEASE");
    return text ? (unsigned)atoi(text) : 26;
}

static int faults(void) { return getenv("MOCK_AMD_FAULTS") != NULL; }

/* `reads` counts the read that goes on. */
static int is_lost(const processor_t *board) { return faults() && board->index == 1 && board->reads > 15; }

static void note(const processor_t *board) {
    const char *path = getenv("MOCK_AMD_LOG");
    if (!path) return;
    char line[64];
    int length = snprintf(line, sizeof line, "%u %llu\n", board->index, board->reads - 1);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (write(file, line, length) != length) abort();
    close(file);
}

int amdsmi_init(uint64_t flags) { return flags == 2 ? SUCCESS : INVAL; }

int amdsmi_get_lib_version(uint32_t *version) {
    unsigned release = release_of_header();
    /* Release 24 calls this the year; 25 has an empty year before it. */
    if (release == 25) *version++ = 0;
    version[0] = release;
    version[1] = 3;
    return SUCCESS;
}

int amdsmi_get_socket_handles(uint32_t *count, void **handles) {
    if (*count < 3) return INVAL;
    *count = 3;
    for (int at = 0; at < 3; at++) handles[at] = &sockets[at];
    return SUCCESS;
}

int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    static const int first[3] = {0, 2, 3}, counts[3] = {2, 1, 1};
    int at = *(int *)socket;
    *count = counts[at];
    for (int processor = 0; processor < counts[at]; processor++)
        handles[processor] = &processors[first[at] + processor];
    return SUCCESS;
}

int amdsmi_get_power_info(processor_t *board, void *info) {
    if (board == &processors[1]) abort(); /* nobody should ask a partition */
    int wide = release_of_header() >= 25;
    uint32_t power = (board->index + 5) * 100;
    uint32_t none = wide ? 0xFFFFFFFF : 0xFFFF;
    uint32_t *words = info;
    /* The first call of each board only asks what it answers. */
    unsigned long long read = board->reads++;
    if (is_lost(board)) return NOT_FOUND;
    if (read > 0 && board->index < 2) note(board);
    power += (uint32_t)read;
    if (board->index == 2 || (faults() && board->index == 0 && read == 10)) power = none;
    if (wide) {
        uint64_t socket_power = power;
        memcpy(words, &socket_power, sizeof socket_power);
        words += 2;
    }
    words[0] = board->index == 1 ? none : power; /* current */
    words[1] = board->index == 1 ? power : none; /* average */
    words[2] = 800;                              /* a voltage, mV */
    return SUCCESS;
}

int amdsmi_get_energy_count(processor_t *board, uint64_t *count, float *unit_uj, uint64_t *stamp) {
    if (is_lost(board)) return NOT_FOUND;
    /* Power was read just before; before that only asks. */
    uint64_t read = board->reads - 1;
    if (faults() && board->index == 1 && read == 5) return IO;
    *unit_uj = 15.2587890625f; /* 2^-16 J */
    *count = 1000 * (read + 1);
    if (faults() && board->index == 0) *count = (0x100000000ULL - 20000 + 1000 * read) & 0xFFFFFFFF;
    *stamp = 0;
    return SUCCESS;
}

int amdsmi_get_temp_metric(processor_t *board, uint32_t sensor, uint32_t metric, int64_t *celsius) {
    if (is_lost(board)) return NOT_FOUND;
    if (metric != 0) return INVAL;
    /* Board 1 has no hotspot sensor. */
    if (board->index == 1 && sensor == 1) return NOT_SUPPORTED;
    *celsius = sensor == 1 ? 71 : 52;
    return SUCCESS;
}

int amdsmi_get_clock_info(processor_t *board, uint32_t clock, uint32_t *info) {
    if (is_lost(board)) return NOT_FOUND;
    info[0] = clock == 0 ? 2100 : clock == 4 ? 1300 : 0;
    return SUCCESS;
}

int amdsmi_get_gpu_memory_usage(processor_t *board, uint32_t type, uint64_t *bytes) {
    if (is_lost(board)) return NOT_FOUND;
    if (type != 0) return INVAL;
    *bytes = 3ULL << 30;
    return SUCCESS;
}

int amdsmi_get_gpu_activity(processor_t *board, uint32_t *usage) {
    if (is_lost(board)) return NOT_FOUND;
    memset(usage, 0, 64);
    usage[0] = 87;
    return SUCCESS;
}

int amdsmi_get_gpu_asic_info(processor_t *board, char *info) {
    (void)board;
    strcpy(info, "Mock MI300X");
    return SUCCESS;
}

int amdsmi_get_gpu_driver_info(processor_t *board, char *info) {
    (void)board;
    strcpy(info, "6.8.5");
    return SUCCESS;
}
