package main

import (
	"os"

	"wgd/wgtool"
)

const wgUsage = "usage: wg COMMAND\n" + wgtool.Commands + `  genkey                     print a new private key
  genpsk                     print a new preshared key
  pubkey                     read a private key, print its public key
  version
No command is show.
`

func tool() *wgtool.Tool {
	return &wgtool.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Warn: func(text string) { warn(text) }}
}

// wg is wg(8).
func wg(args []string) error {
	if len(args) == 0 {
		args = []string{"show"}
	}
	command, rest := args[0], args[1:]
	if known, err := tool().Run(args); known {
		return err
	}
	var print func() error
	switch command {
	case "genkey":
		print = genkey
	case "genpsk":
		print = genpsk
	case "pubkey":
		print = pubkey
	case "version", "--version", "-v":
		return printVersion()
	case "help", "--help", "-h":
		_, err := os.Stdout.WriteString(wgUsage)
		return err
	default:
		return wgtool.Usage("unknown command: " + command + "\n" + wgUsage)
	}
	if len(rest) != 0 {
		return wgtool.Usage("usage: wg " + command + "\n")
	}
	return print()
}
