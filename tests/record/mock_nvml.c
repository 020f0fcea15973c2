/* A library with the calls of NVML that the recorder uses: two boards without a GPU. Written from the
 * layout in nvml.h, not from the bindings that the recorder is built with.
 *
 * The power of a board is 100 W (board 0) or 200 W (board 1) plus one milliwatt a read, so that a test
 * knows each reading again. Its counter rises by 10 mJ a read. With MOCK_NVML_FAULTS set,
 *   board 0: the power of read 10 fails; from read 20 on the counter starts again from zero;
 *   board 1: from read 15 on the board is lost.
 * With MOCK_NVML_LOG set, a line "BOARD READ MONOTONIC_NS" is appended to that file for each read that
 * gives power, before it is given.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, GPU_IS_LOST = 15, UNKNOWN = 999 };
enum { FIELD_ENERGY = 83, FIELD_AVERAGE = 185, FIELD_INSTANT = 186 };
enum { TYPE_UNSIGNED_INT = 1, TYPE_UNSIGNED_LONG_LONG = 3 };

typedef struct {
    unsigned int index;
    unsigned long long reads;
} board_t;

static board_t boards[2] = {{0, 0}, {1, 0}};

typedef union {
    double d;
    int si;
    unsigned int ui;
    unsigned long ul;
    unsigned long long ull;
    signed long long sll;
} value_t;

typedef struct {
    unsigned int field;
    unsigned int scope;
    long long timestamp;
    long long latency_us;
    int type;
    int status;
    value_t value;
} field_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} memory_t;

typedef struct {
    unsigned int gpu, memory;
} utilization_t;

static int is_lost(const board_t *board) {
    /* `reads` counts the read that goes on. */
    return getenv("MOCK_NVML_FAULTS") && board->index == 1 && board->reads > 15;
}

static void note(const board_t *board) {
    const char *path = getenv("MOCK_NVML_LOG");
    if (!path) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    char line[64];
    int length = snprintf(line, sizeof line, "%u %llu %lld\n", board->index, board->reads - 1,
                          now.tv_sec * 1000000000LL + now.tv_nsec);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (write(file, line, length) != length) abort();
    close(file);
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    strncpy(version, "570.00.00", length);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = 2;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, board_t **board) {
    if (index > 1) return INVALID_ARGUMENT;
    *board = &boards[index];
    return SUCCESS;
}

int nvmlDeviceGetName(board_t *board, char *name, unsigned int length) {
    (void)board;
    strncpy(name, "Mock H200", length);
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(board_t *board, int count, field_t *fields) {
    /* The first call of each board only asks what it answers. */
    unsigned long long read = board->reads++;
    int faults = getenv("MOCK_NVML_FAULTS") != NULL;
    if (is_lost(board)) return GPU_IS_LOST;
    if (read > 0) note(board);
    for (int at = 0; at < count; at++) {
        field_t *field = &fields[at];
        unsigned int power_mw = (board->index + 1) * 100000 + (unsigned int)read;
        field->status = SUCCESS;
        if (field->scope != 0) {
            field->status = NOT_SUPPORTED;
        } else if (field->field == FIELD_INSTANT || field->field == FIELD_AVERAGE) {
            field->type = TYPE_UNSIGNED_INT;
            field->value.ui = power_mw;
            if (faults && board->index == 0 && read == 10 && field->field == FIELD_INSTANT)
                field->status = UNKNOWN;
        } else if (field->field == FIELD_ENERGY) {
            int is_reset = faults && board->index == 0 && read >= 20;
            field->type = TYPE_UNSIGNED_LONG_LONG;
            field->value.ull = 10ULL * (is_reset ? read - 20 : read + 1000);
        } else {
            field->status = NOT_SUPPORTED;
        }
    }
    return SUCCESS;
}

int nvmlDeviceGetTemperature(board_t *board, int sensor, unsigned int *celsius) {
    (void)sensor;
    if (is_lost(board)) return GPU_IS_LOST;
    *celsius = 50 + board->index;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(board_t *board, int clock, unsigned int *mhz) {
    if (is_lost(board)) return GPU_IS_LOST;
    *mhz = clock == 1 ? 1980 : 3201;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(board_t *board, memory_t *memory) {
    if (is_lost(board)) return GPU_IS_LOST;
    memory->total = 141ULL << 30;
    memory->used = 1ULL << 30;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(board_t *board, utilization_t *rates) {
    if (is_lost(board)) return GPU_IS_LOST;
    rates->gpu = 70;
    rates->memory = 30;
    return SUCCESS;
}
