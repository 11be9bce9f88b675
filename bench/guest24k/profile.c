// A plugin of qemu-system that counts what the guest executes between two calls of one
// function, by block of code: instructions, not samples. The first word of an output
// line is where a block begins, the second how many instructions were executed in it.
//
//	mark=PC   counting starts when PC is executed, stops at the next time, and so on
//
// Output goes to the file $PROFILE_OUT. The API's version 1 is declared here, since
// distributions ship no qemu-plugin.h.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct tb;
struct insn;

API int qemu_plugin_version = 1;

enum { NO_REGS = 0, SLOTS = 1 << 18 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct tb *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct tb *);
struct insn *qemu_plugin_tb_get_insn(const struct tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct insn *);

// One for each start and length of a translated block: the same code may be translated
// again, or cut otherwise.
static struct block {
	uint64_t pc, insns, times;
} blocks[SLOTS];

static uint64_t mark;
static int counting;

static void executed(unsigned cpu, void *b)
{
	if (counting)
		((struct block *)b)->times++;
}

static void toggle(unsigned cpu, void *arg) { counting = !counting; }

static void translated(plugin_id id, struct tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	uint64_t pc = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	size_t slot = (pc / 4 * 2654435761u + n) % SLOTS;
	for (size_t tries = 0; blocks[slot].insns && (blocks[slot].pc != pc || blocks[slot].insns != n); tries++) {
		if (tries == SLOTS)
			return;
		slot = (slot + 1) % SLOTS;
	}
	blocks[slot].pc = pc;
	blocks[slot].insns = n;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGS, &blocks[slot]);
	for (size_t i = 0; i < n; i++) {
		struct insn *in = qemu_plugin_tb_get_insn(tb, i);
		if (qemu_plugin_insn_vaddr(in) == mark)
			qemu_plugin_register_vcpu_insn_exec_cb(in, toggle, NO_REGS, NULL);
	}
}

static void report(plugin_id id, void *arg)
{
	FILE *f = fopen(getenv("PROFILE_OUT"), "w");
	if (!f)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		if (blocks[i].times)
			fprintf(f, "%llx %llu\n", (unsigned long long)blocks[i].pc, (unsigned long long)(blocks[i].times * blocks[i].insns));
	fclose(f);
}

API int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "mark=", 5))
			mark = strtoull(argv[i] + 5, 0, 0);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, report, NULL);
	return 0;
}
