/* A module of OpenIPMI's ipmi_sim that answers DCMI's "Get Power Reading", which the simulator lacks.
 *
 * Its option is a folder. The file `reading` there holds "WATTS STATE PERIOD_MS" in decimal; STATE 1 is an
 * active measurement. Without the file the answer is an error. Every answer is appended to `served`, so that
 * a test can compare what was recorded with what was sent.
 *
 * Layout: DCMI 1.5, section 6.6.1.
 */
#include <OpenIPMI/mcserv.h>
#include <stdio.h>
#include <string.h>

#define DCMI_GROUP 0xdc
#define GET_POWER_READING 0x02
#define INVALID_COMMAND 0xc1
#define DATA_NOT_PRESENT 0xcb
#define STATE_ACTIVE 0x40

static char folder[512];

static void put(unsigned char **to, unsigned long value, int bytes)
{
    while (bytes-- > 0) {
        *(*to)++ = value & 0xff;
        value >>= 8;
    }
}

static FILE *open_in_folder(const char *name, const char *mode)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return fopen(path, mode);
}

static void get_power_reading(unsigned char *rdata, unsigned int *rdata_len)
{
    unsigned int watts = 0, active = 0, period_ms = 0;
    FILE *file = open_in_folder("reading", "r");
    int found = file ? fscanf(file, "%u %u %u", &watts, &active, &period_ms) : 0;
    if (file)
        fclose(file);
    file = open_in_folder("served", "a");
    if (found != 3) {
        rdata[0] = DATA_NOT_PRESENT;
        *rdata_len = 1;
        if (file)
            fprintf(file, "absent\n");
    } else {
        unsigned char *to = rdata;
        put(&to, 0, 1);
        put(&to, DCMI_GROUP, 1);
        put(&to, watts, 2);
        /* Minimum, maximum and average of the period: far from the reading, so that none passes for it. */
        put(&to, 11, 2);
        put(&to, 6000, 2);
        put(&to, 22, 2);
        put(&to, 1700000000UL, 4);
        put(&to, period_ms, 4);
        put(&to, active ? STATE_ACTIVE : 0, 1);
        *rdata_len = to - rdata;
        if (file)
            fprintf(file, "%u %u\n", watts, active);
    }
    if (file)
        fclose(file);
}

static void handle(lmc_data_t *mc, msg_t *msg, unsigned char *rdata, unsigned int *rdata_len, void *cb_data)
{
    (void) mc;
    (void) cb_data;
    if (msg->cmd == GET_POWER_READING) {
        get_power_reading(rdata, rdata_len);
    } else {
        rdata[0] = INVALID_COMMAND;
        *rdata_len = 1;
    }
}

int ipmi_sim_module_print_version(sys_data_t *sys, char *options)
{
    (void) sys;
    (void) options;
    return 0;
}

int ipmi_sim_module_init(sys_data_t *sys, const char *options)
{
    (void) sys;
    snprintf(folder, sizeof(folder), "%s", options ? options : ".");
    ipmi_emu_register_group_extension_handler(DCMI_GROUP, handle, NULL);
    return 0;
}
