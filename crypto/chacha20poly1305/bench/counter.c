// A qemu-user plugin (API v1, QEMU 4.2 and later) that counts guest instructions:
// the same program gives the same number on any machine. It declares what it uses
// of the API itself, since distributions ship no qemu-plugin.h.
//
//	begin=PC,end=PC   the instructions that a thread executes from begin to end,
//	                  each time it passes them: one line "window N"
//	NAME=LO-HI        instructions with LO <= pc < HI, their memory accesses, and
//	                  those of 2 bytes or more that are not aligned to their size:
//	                  one line "NAME insns N accesses N misaligned N"
//
// Numbers are hexadecimal with 0x. Output goes to the file $COUNTER_OUT.
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef uint32_t mem_info;
struct tb;
struct insn;

API int qemu_plugin_version = 1;

enum { INLINE_ADD = 0, NO_REGS = 0, MEM_RW = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct tb *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct insn *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct insn *, void (*)(unsigned, mem_info, uint64_t, void *), int, int, void *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
unsigned qemu_plugin_mem_size_shift(mem_info);
size_t qemu_plugin_tb_n_insns(const struct tb *);
struct insn *qemu_plugin_tb_get_insn(const struct tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct insn *);

enum { MAX_CPUS = 256, MAX_RANGES = 32, MAX_WINDOWS = 4096 };

static struct range {
	char name[64];
	uint64_t lo, hi;
	uint64_t insns, accesses, misaligned;
} ranges[MAX_RANGES];
static int n_ranges;

static uint64_t begin_pc, end_pc;
static uint64_t executed[MAX_CPUS], started[MAX_CPUS]; // by thread
static uint64_t windows[MAX_WINDOWS];
static int n_windows;

static void block(unsigned cpu, void *n) { executed[cpu % MAX_CPUS] += (uintptr_t)n; }

static void begin(unsigned cpu, void *arg) { started[cpu % MAX_CPUS] = executed[cpu % MAX_CPUS]; }

static void end(unsigned cpu, void *arg)
{
	if (n_windows < MAX_WINDOWS)
		windows[n_windows++] = executed[cpu % MAX_CPUS] - started[cpu % MAX_CPUS];
}

static void access_memory(unsigned cpu, mem_info info, uint64_t addr, void *arg)
{
	struct range *r = arg;

	r->accesses++;
	if (addr & ((1u << qemu_plugin_mem_size_shift(info)) - 1))
		r->misaligned++;
}

static void translate(plugin_id id, struct tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	if (begin_pc)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, block, NO_REGS, (void *)(uintptr_t)n);
	for (size_t i = 0; i < n; i++) {
		struct insn *in = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(in);

		if (begin_pc && pc == begin_pc)
			qemu_plugin_register_vcpu_insn_exec_cb(in, begin, NO_REGS, NULL);
		if (begin_pc && pc == end_pc)
			qemu_plugin_register_vcpu_insn_exec_cb(in, end, NO_REGS, NULL);
		for (struct range *r = ranges; r < ranges + n_ranges; r++) {
			if (pc < r->lo || pc >= r->hi)
				continue;
			qemu_plugin_register_vcpu_insn_exec_inline(in, INLINE_ADD, &r->insns, 1);
			qemu_plugin_register_vcpu_mem_cb(in, access_memory, NO_REGS, MEM_RW, r);
		}
	}
}

static void finish(plugin_id id, void *arg)
{
	const char *name = getenv("COUNTER_OUT");
	FILE *f = name ? fopen(name, "w") : stderr;

	if (!f)
		return;
	for (int i = 0; i < n_windows; i++)
		fprintf(f, "window %llu\n", (unsigned long long)windows[i]);
	for (struct range *r = ranges; r < ranges + n_ranges; r++)
		fprintf(f, "%s insns %llu accesses %llu misaligned %llu\n", r->name, (unsigned long long)r->insns,
			(unsigned long long)r->accesses, (unsigned long long)r->misaligned);
	fflush(f);
}

API int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			return 1;
		*value++ = 0;
		if (!strcmp(argv[i], "begin")) {
			begin_pc = strtoull(value, NULL, 0);
		} else if (!strcmp(argv[i], "end")) {
			end_pc = strtoull(value, NULL, 0);
		} else if (n_ranges < MAX_RANGES) {
			struct range *r = &ranges[n_ranges++];

			snprintf(r->name, sizeof r->name, "%s", argv[i]);
			r->lo = strtoull(value, &value, 0);
			r->hi = strtoull(value + 1, NULL, 0);
		}
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
