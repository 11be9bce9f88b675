// Wgd is a WireGuard daemon.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"wgd/wgtool"
)

// gcPercent keeps the heap small: a router has little memory, and the packet
// path allocates nothing, so that the collector has nothing to do there.
const gcPercent = 30

// version is set by the linker: -X main.version=…
var version = "development"

const usage = `usage: wgd [-f] INTERFACE    make the interface; -f, --foreground: do not go to the background
       wgd run CONF          the same in the foreground, configured from a file
       wgd up CONF           the same in the background
       wgd down CONF         end it
       wgd show|showconf|set|setconf|addconf|syncconf ...
                             what wg(8) does; called wg it is that
       wgd genkey            print a new private key
       wgd pubkey            read a private key, print its public key
       wgd genpsk            print a new preshared key
       wgd bench             test and measure the cryptography on this machine
       wgd version
CONF is a path that ends with .conf, or an interface: /etc/wireguard/INTERFACE.conf.
environment: LOG_LEVEL=error|verbose|silent; WGD_OFFLOAD=all|none|a list of mmsg,vnet,tso,uso,ugro,gso,gro;
       WGD_MEMORY=32M|another amount; WGD_AEAD=generic|another name that wgd bench shows
`

// errUsage makes the program print how it is used.
var errUsage = errors.New("usage")

func main() {
	debug.SetGCPercent(gcPercent)
	if err := harden(); err != nil {
		exit(err)
	}
	exit(run(filepath.Base(os.Args[0]), os.Args[1:]))
}

// harden keeps the keys from other processes of the user and from core files.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("setrlimit RLIMIT_CORE: %w", err)
	}
	return nil
}

func exit(err error) {
	var text wgtool.Usage
	switch {
	case err == errUsage:
		os.Stderr.WriteString(usage)
	case errors.As(err, &text):
		os.Stderr.WriteString(string(text))
	case err != nil:
		warn(err)
	default:
		os.Exit(0)
	}
	os.Exit(1)
}

// warn tells the user, in one line.
func warn(what any) { fmt.Fprintln(os.Stderr, called+":", what) }

// called is the name before messages: wg or wgd.
var called = "wgd"

// run does what the arguments say. Called wireguard-go it knows interfaces only, called
// wg it is wg(8).
func run(program string, args []string) error {
	if program == "wg" {
		called = program
		return wg(args)
	}
	if len(args) == 0 {
		return errUsage
	}
	command, rest := args[0], args[1:]
	if program != "wireguard-go" {
		if known, err := tool().Run(args); known {
			return err
		}
	}
	switch command {
	case "-f", "--foreground":
		return with(rest, func(name string) error { return runInterface(name, true) })
	case "--version":
		return without(rest, printVersion)
	case "-h", "--help":
		return without(rest, printUsage)
	}
	if program != "wireguard-go" {
		switch command {
		case "run":
			return with(rest, runConfig)
		case "up":
			return with(rest, up)
		case "down":
			return with(rest, down)
		case "genkey":
			return without(rest, genkey)
		case "pubkey":
			return without(rest, pubkey)
		case "genpsk":
			return without(rest, genpsk)
		case "bench":
			return bench(rest)
		case "version":
			return without(rest, printVersion)
		case "help":
			return without(rest, printUsage)
		}
	}
	if len(rest) != 0 || strings.HasPrefix(command, "-") {
		return errUsage
	}
	return runInterface(command, os.Getenv(envForeground) == "1")
}

func with(args []string, f func(string) error) error {
	if len(args) != 1 {
		return errUsage
	}
	return f(args[0])
}

func without(args []string, f func() error) error {
	if len(args) != 0 {
		return errUsage
	}
	return f()
}

func printVersion() error {
	_, err := os.Stdout.WriteString("wgd " + version + "\n")
	return err
}

func printUsage() error {
	_, err := os.Stdout.WriteString(usage)
	return err
}
