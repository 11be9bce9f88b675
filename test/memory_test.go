package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/device"
)

// The budget is that of the machine, of WGD_MEMORY, or of the key Memory; the
// environment wins over the file. So it is with Offload.
func TestBudgetIsChosen(t *testing.T) {
	t.Parallel()
	const small, large = 28 << 20, 1 << 40
	for _, test := range []struct {
		name   string
		env    string
		file   string // "": without a file
		memory int64
		vnet   bool
	}{
		{"by the machine", "", "", 0, true},
		{"by the environment", "WGD_MEMORY=28M", "", small, true},
		{"by the file", "", "Memory = 28m\n", small, true},
		{"by both", "WGD_MEMORY=1024G", "Memory = 29360128\n", large, true},
		{"offloads by the file", "", "Offload = gso, gro\n", 0, false},
		{"offloads by both", "WGD_OFFLOAD=all", "Offload = none\n", 0, true},
	} {
		for _, command := range []string{"-f", "run", "up"} {
			if (command == "-f") != (test.file == "") {
				continue
			}
			t.Run(test.name+", "+command, func(t *testing.T) {
				t.Parallel()
				h, ifname := newHost(t), unique("m")
				argv := []string{wgd(t), command, ifname}
				if test.file != "" {
					path := filepath.Join(t.TempDir(), ifname+".conf")
					os.WriteFile(path, []byte("[Interface]\nPrivateKey = "+newKey().private+"\n"+test.file), 0o600)
					argv[len(argv)-1] = path
				}
				if test.env != "" {
					argv = append([]string{"env", test.env}, argv...)
				}
				if command == "up" {
					h.run(argv...)
				} else {
					h.start(ifname, argv...).ready()
				}
				h.ip("link set " + ifname + " up")
				b := device.BudgetFor(test.memory)
				// the kernel doubles both
				want := fmt.Sprintf("rb%d,", 2*b.ReceiveBuffer)
				wantOut := fmt.Sprintf("tb%d,", 2*b.SendBuffer)
				var got string
				eventually(t, 10*time.Second, "sockets", func() bool {
					got = h.run("ss", "-Hlunm")
					return strings.Count(got, "skmem:") == 2
				})
				flags, err := strconv.ParseUint(strings.TrimSpace(h.run("cat", "/sys/class/net/"+ifname+"/tun_flags")), 0, 32)
				if err != nil || flags&unix.IFF_VNET_HDR != 0 != test.vnet {
					t.Errorf("TUN flags %#x, %v, want vnet_hdr: %v", flags, err, test.vnet)
				}
				if strings.Count(got, want) != 2 || strings.Count(got, wantOut) != 2 {
					t.Errorf("want %s and %s of two sockets:\n%s", want, wantOut, got)
				}
			})
		}
	}
}
