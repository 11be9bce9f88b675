package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/noise"
)

func genkey() error {
	k, err := noise.NewPrivateKey(rand.Reader)
	if err != nil {
		return err
	}
	return printKey(conf.Key(k), true)
}

func genpsk() error {
	var k conf.Key
	rand.Read(k[:])
	return printKey(k, true)
}

// pubkey reads as wg(8) does: exactly one key, then nothing but white space.
func pubkey() error {
	const size = 44 // of a key in base64
	in, err := io.ReadAll(io.LimitReader(os.Stdin, 64<<10))
	if err != nil {
		return err
	}
	if len(bytes.TrimRight(in[min(size, len(in)):], " \t\n\v\f\r\x00")) != 0 {
		return errors.New("Trailing characters found after key")
	}
	k, err := conf.ParseKey(string(in[:min(size, len(in))]))
	if err != nil {
		return errors.New("Key is not the correct length or format")
	}
	private := noise.PrivateKey(k)
	return printKey(conf.Key(private.Public()), false)
}

func printKey(k conf.Key, secret bool) error {
	var st unix.Stat_t
	if secret && unix.Fstat(1, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&unix.S_IRWXO != 0 {
		os.Stderr.WriteString("Warning: writing to world accessible file.\nConsider setting the umask to 077 and trying again.\n")
	}
	_, err := os.Stdout.WriteString(k.String() + "\n")
	return err
}
