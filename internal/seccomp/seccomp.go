// Package seccomp makes system calls fail, for tests: what an older kernel does not
// have, or what a router's refuses.
package seccomp

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Rule is a system call that fails: CALL[:VALUE…]=ERRNO, such as
//
//	sendmmsg=ENOSYS                the call
//	setsockopt:17:104=ENOPROTOOPT  the call with this level and option: UDP_GRO
//	ioctl:0x400454d0:&0x60=EINVAL  TUNSETOFFLOAD with one of these bits
//	socket:10=EAFNOSUPPORT         IPv6
//	312+=ENOSYS                    all from kcmp on, which on amd64 came with Linux 3.5
//
// CALL is a name that the calls variable has, or a number. The values are those of the
// arguments, from the first that is worth a look: behind the descriptor of setsockopt,
// getsockopt, ioctl and fcntl. A value is a number, N+ for N and what is greater, & and
// the bits of which one is set, or * for any. Only the lower 32 bits of an argument are
// looked at. With the errno 0 the call does nothing and succeeds.
type Rule string

// calls are the names of a Rule.
var calls = map[string]uint32{
	"bind":           unix.SYS_BIND,
	"clock_gettime":  unix.SYS_CLOCK_GETTIME,
	"clone3":         unix.SYS_CLONE3,
	"fcntl":          unix.SYS_FCNTL,
	"getrandom":      unix.SYS_GETRANDOM,
	"getsockopt":     unix.SYS_GETSOCKOPT,
	"ioctl":          unix.SYS_IOCTL,
	"madvise":        unix.SYS_MADVISE,
	"memfd_create":   unix.SYS_MEMFD_CREATE,
	"pidfd_open":     unix.SYS_PIDFD_OPEN,
	"prctl":          unix.SYS_PRCTL,
	"prlimit64":      unix.SYS_PRLIMIT64,
	"read":           unix.SYS_READ,
	"recvmmsg":       unix.SYS_RECVMMSG,
	"recvmsg":        unix.SYS_RECVMSG,
	"sendmmsg":       unix.SYS_SENDMMSG,
	"sendmsg":        unix.SYS_SENDMSG,
	"setns":          unix.SYS_SETNS,
	"setsockopt":     unix.SYS_SETSOCKOPT,
	"socket":         unix.SYS_SOCKET,
	"statx":          unix.SYS_STATX,
	"timerfd_create": unix.SYS_TIMERFD_CREATE,
	"waitid":         unix.SYS_WAITID,
	"write":          unix.SYS_WRITE,
	"writev":         unix.SYS_WRITEV,
}

// firstArgument is that of a Rule's first value, if not 0.
var firstArgument = map[string]int{"setsockopt": 1, "getsockopt": 1, "ioctl": 1, "fcntl": 1}

// Offsets in struct seccomp_data.
const (
	offsetCall      = 0
	offsetArguments = 16
)

// compile appends the rule's program, which falls through to the next if the rule does
// not apply.
func (r Rule) compile(program []unix.SockFilter) ([]unix.SockFilter, error) {
	left, errnoName, ok := strings.Cut(string(r), "=")
	errno, known := errnoOf(errnoName)
	if !ok || !known {
		return nil, fmt.Errorf("rule %q: want CALL[:VALUE...]=ERRNO", r)
	}
	values := strings.Split(left, ":")
	first := firstArgument[values[0]]
	if call, known := calls[values[0]]; known {
		values[0] = strconv.Itoa(int(call))
	}
	var tests []test
	for i, v := range values {
		if v == "*" {
			continue
		}
		t, err := parseTest(v)
		switch argument := first + i - 1; {
		case err != nil && i == 0:
			return nil, fmt.Errorf("rule %q: unknown system call %s", r, v)
		case err != nil:
			return nil, fmt.Errorf("rule %q: value %q", r, v)
		case argument > 5:
			return nil, fmt.Errorf("rule %q: more values than arguments", r)
		case i == 0:
			t.offset = offsetCall
		default:
			t.offset = uint32(offsetArguments + 8*argument + lowHalf)
		}
		tests = append(tests, t)
	}
	for i, t := range tests {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: t.offset},
			// to behind the return, past what the later tests take
			unix.SockFilter{Code: unix.BPF_JMP | t.jump | unix.BPF_K, Jf: uint8(2*(len(tests)-1-i) + 1), K: t.value})
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno}), nil
}

// A test is one comparison of a Rule.
type test struct {
	offset, value uint32
	jump          uint16 // if true
}

func parseTest(v string) (test, error) {
	t := test{jump: unix.BPF_JEQ}
	if bits, ok := strings.CutPrefix(v, "&"); ok {
		v, t.jump = bits, unix.BPF_JSET
	} else if least, ok := strings.CutSuffix(v, "+"); ok {
		v, t.jump = least, unix.BPF_JGE
	}
	n, err := strconv.ParseUint(v, 0, 32)
	t.value = uint32(n)
	return t, err
}

// lowHalf is where the lower half of a 64-bit argument is.
var lowHalf = func() int {
	if b := [2]byte{1, 0}; *(*uint16)(unsafe.Pointer(&b)) != 1 {
		return 4
	}
	return 0
}()

func errnoOf(name string) (uint32, bool) {
	if name == "0" {
		return 0, true
	}
	for e := unix.Errno(1); e < 4096; e++ {
		if name != "" && unix.ErrnoName(e) == name {
			return uint32(e), true
		}
	}
	return 0, false
}

// install puts a filter on the calling thread and on what it executes.
func install(rules []Rule) error {
	var program []unix.SockFilter
	for _, r := range rules {
		var err error
		if program, err = r.compile(program); err != nil {
			return err
		}
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

// Do calls f on a thread where the rules hold. They do not on those of goroutines that
// f starts.
func Do(rules []Rule, f func()) error {
	done := make(chan error)
	go func() {
		var err error
		defer func() { done <- err }() // also if f ends the goroutine, as t.Fatal does
		runtime.LockOSThread()         // never unlocked: the thread ends with this goroutine
		if err = install(rules); err == nil {
			f()
		}
	}()
	return <-done
}

// Exec executes argv under the rules in place of the process.
func Exec(rules []Rule, argv []string) error {
	runtime.LockOSThread() // the filter is the thread's, and survives exec
	if err := install(rules); err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", argv[0], unix.Exec(argv[0], slices.Clone(argv), os.Environ()))
}
