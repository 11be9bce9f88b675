// Refuse runs a program some of whose system calls fail, see seccomp.Rule:
//
//	refuse sendmmsg=ENOSYS setsockopt:17:104=ENOPROTOOPT -- ./wgd -f wg0
package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"wgd/internal/seccomp"
)

func main() {
	args := os.Args[1:]
	end := slices.Index(args, "--")
	if end < 0 || end == len(args)-1 {
		fail("usage: refuse CALL[:VALUE...]=ERRNO... -- PROGRAM ARGUMENT...")
	}
	var rules []seccomp.Rule
	for _, r := range args[:end] {
		rules = append(rules, seccomp.Rule(r))
	}
	argv := args[end+1:]
	path, err := exec.LookPath(argv[0])
	if err != nil {
		fail(err)
	}
	argv[0] = path
	fail(seccomp.Exec(rules, argv))
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, "refuse:", why)
	os.Exit(126)
}
