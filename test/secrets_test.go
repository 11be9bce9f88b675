package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// After the keys are zeroed, the daemon's memory holds none of the session's: the
// interface goes down, and neither key, nor half of one, is in any mapping that
// the process can write. While the session lives they are found there, or the
// scan would prove nothing.
func TestSessionKeysAreWiped(t *testing.T) {
	t.Parallel()
	d, p := daemonAndPeer(t, false)
	src, dst := mustEndpoint("10.0.0.2:7"), mustEndpoint("10.0.0.1:7")
	arrived := d.sniff(d.ifname)
	var keys [][]byte
	session := func() {
		t.Helper()
		p.handshake()
		send, recv := p.send.UnsafeKey(), p.recv.UnsafeKey()
		keys = append(keys, send[:], recv[:])
		arrived.forget()
		for range 10 {
			p.write(udpPacket(src, dst, 0, "data"), 0)
		}
		arrived.find("data", func(q packet) bool { return !q.sent && string(q.payload) == "data" })
		c := d.udp("10.0.0.1:0")
		c.WriteToUDPAddrPort([]byte("back"), src)
		if _, err := p.receive(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	session()
	if n := len(d.findKeys(keys)); n == 0 {
		t.Fatal("the live session's keys are not found: the scan is blind")
	}
	time.Sleep(20 * time.Millisecond) // timestamps are 16 ms apart, and older ones refused
	session()                         // the first one's keys are the previous pair now
	d.ip("link set " + d.ifname + " down")
	eventually(t, 5*time.Second, "the sockets are closed", func() bool { return len(d.sockets()) == 0 })
	if places := d.findKeys(keys); len(places) > 0 {
		t.Errorf("session keys after the interface went down:\n%s", strings.Join(places, "\n"))
	}

	// the same for a peer that is removed
	d.ip("link set " + d.ifname + " up")
	time.Sleep(20 * time.Millisecond)
	session()
	d.set("public_key=" + asHex(p.key.public) + "\nremove=true\n")
	if places := d.findKeys(keys); len(places) > 0 {
		t.Errorf("session keys after the peer was removed:\n%s", strings.Join(places, "\n"))
	}
}

// The process cannot be read by others of its user, nor leave a core file.
func TestNotDumpable(t *testing.T) {
	t.Parallel()
	d := newHost(t).daemon(wgd(t))
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", d.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(limits)) {
		if f := strings.Fields(line); strings.HasPrefix(line, "Max core file size") && (f[4] != "0" || f[5] != "0") {
			t.Errorf("core files: %s", line)
		}
	}

	// The kernel shows the flag itself nowhere; but the files in /proc/PID of a
	// process that is not dumpable belong to root, whoever runs it. Both programs
	// here wait for their input.
	for _, program := range []struct {
		argv  []string
		owner uint32
	}{{[]string{wgd(t), "pubkey"}, 0}, {[]string{"cat"}, 65534}} {
		cmd := exec.Command("setpriv", append([]string{"--reuid", "65534", "--clear-groups", "--bounding-set", "-all"}, program.argv...)...)
		input, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
		eventually(t, 10*time.Second, fmt.Sprintf("%v: its memory belongs to %d", program.argv, program.owner), func() bool {
			comm, _ := os.ReadFile(proc + "comm")
			info, err := os.Stat(proc + "mem")
			return err == nil && string(comm) == filepath.Base(program.argv[0])+"\n" && info.Sys().(*syscall.Stat_t).Uid == program.owner
		})
		input.Close()
		cmd.Wait()
	}
}

// findKeys looks for each key and each half of one in the daemon's memory, and
// says where it found them.
func (d *daemon) findKeys(keys [][]byte) (places []string) {
	d.t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", d.pid()))
	if err != nil {
		d.t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", d.pid()))
	if err != nil {
		d.t.Fatal(err)
	}
	defer mem.Close()
	var scanned int64
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode)
		if !strings.HasPrefix(mode, "rw") || strings.Contains(line, "[vvar") {
			continue
		}
		const step, overlap = 1 << 20, 32
		buf := make([]byte, step+overlap)
		for at := from; at < to; at += step {
			b := buf[:min(int64(len(buf)), to-at)]
			if n, err := mem.ReadAt(b, at); err != nil {
				d.t.Logf("read %d bytes of %d at %#x: %v", n, len(b), at, err)
				continue
			}
			scanned += int64(len(b))
			for i, key := range keys {
				for half := range 2 {
					for off := 0; ; {
						j := bytes.Index(b[off:], key[half*16:half*16+16])
						if j < 0 {
							break
						}
						places = append(places, fmt.Sprintf("key %d, half %d at %#x: %s", i, half, at+int64(off+j), strings.TrimSpace(line)))
						off += j + 1
					}
				}
			}
		}
	}
	if scanned < 1<<20 {
		d.t.Fatalf("only %d bytes were scanned", scanned)
	}
	return places
}
