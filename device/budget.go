package device

import "golang.org/x/sys/unix"

// A Budget is what a Device takes at most for packets and requests, in bytes if nothing
// else is said. It is fixed at the start. What else grows is configuration: 1.4 kB a
// peer.
type Budget struct {
	// Copies of the packets that wait for handshakes, of all peers together; the
	// oldest of a peer give way.
	Staged int

	// Of each of the two UDP sockets: what one burst in is read into. 64 KiB of it are
	// what coalesced datagrams need, the rest is for full Ethernet frames.
	Arena int
	// Of each, too, SO_RCVBUF: while it waits for us. The kernel takes double, for its
	// own data.
	ReceiveBuffer int
	// And SO_SNDBUF: what waits in queues of links, doubled as well. If less than the
	// queue of a slow link holds (1,000 packets of 2.3 kB with the kernel's own data,
	// where it is a plain one), it is not that queue that drops, for that link alone,
	// but the socket, for all peers.
	SendBuffer int

	// Packets that wait in the TUN to be read, for its LimitQueue; each may be a
	// super-packet of 64 KiB. The kernel's own default is 500. On an emulated 24Kc 64
	// are as good: that is 16 ms of full packets.
	Queue int

	// The text of one request on the control socket. While it is read and applied it
	// takes up to nine times that, with the peers that it makes.
	Operation int
}

// budgets are for machines of up to below bytes. MemTotal is some MiB less than what
// is soldered on: the kernel itself does not count. Beside them each machine has 64 KiB
// for a burst out, 64 KiB for a super-packet of the TUN, and 42 kB for handshake
// messages that wait.
var budgets = []struct {
	below int64
	Budget
}{
	// 32 MB: of 28 some 10 are free. 0.45 MB for packets, and 2.5 MB of the kernel's at
	// worst; 2,000 peers at once. 12 ms of 100 Mbit/s may wait in, more than such a CPU
	// needs to come back.
	{48 << 20, Budget{Staged: 64 << 10, Arena: 96 << 10, ReceiveBuffer: 128 << 10, SendBuffer: 512 << 10, Queue: 64, Operation: 512 << 10}},
	// 64 MB: 0.6 MB, and 5 MB at worst.
	{96 << 20, Budget{Staged: 128 << 10, Arena: 128 << 10, ReceiveBuffer: 256 << 10, SendBuffer: 1 << 20, Queue: 128, Operation: 1 << 20}},
	// 128 and 256 MB: 0.7 MB, and 12 MB at worst. 50 ms of 200 Mbit/s may wait.
	{384 << 20, Budget{Staged: 256 << 10, Arena: 160 << 10, ReceiveBuffer: 1 << 20, SendBuffer: 2 << 20, Queue: 256, Operation: 4 << 20}},
	// All that is of use: 1 MB, and 24 MB at worst; 24,000 peers with preshared key,
	// endpoint and two allowed IPs are 7 MiB. At 3 Gbit/s 7 % of TCP was lost for want
	// of a larger receive buffer than 512 KiB, with 2 MiB one in 50,000.
	{1<<63 - 1, Budget{Staged: 512 << 10, Arena: 160 << 10, ReceiveBuffer: 2 << 20, SendBuffer: 4 << 20, Queue: 500, Operation: 16 << 20}},
}

// BudgetFor returns the budget on a machine of so many bytes of memory; 0: of this one.
func BudgetFor(memory int64) Budget {
	if memory == 0 {
		memory = machineMemory()
	}
	for _, b := range budgets {
		if memory < b.below {
			return b.Budget
		}
	}
	return budgets[len(budgets)-1].Budget
}

// machineMemory is the MemTotal of /proc/meminfo, also where there is no /proc.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 1 << 40 // not known to happen
	}
	return int64(info.Totalram) * int64(info.Unit)
}
