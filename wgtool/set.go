package wgtool

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"

	"wgd/conf"
)

const setUsage Usage = `usage: wg set INTERFACE [listen-port PORT] [fwmark MARK|off] [private-key FILE]
              [peer PUBLICKEY [remove] [preshared-key FILE] [endpoint HOST:PORT]
               [persistent-keepalive SECONDS|off] [allowed-ips [+|-]ADDRESS/BITS,...]]...
Keys are read from files, which may be /dev/stdin; an empty file removes the key.
Allowed IPs replace those there are, unless there is a + (add) or - (remove) in the list.
`

func (t *Tool) set(args []string) error {
	if len(args) < 2 {
		return setUsage
	}
	u, err := t.settings(args[1:])
	if err != nil {
		u.Wipe()
		return err
	}
	return apply(args[0], u)
}

// settings reads what stands behind the interface.
func (t *Tool) settings(args []string) (*conf.Update, error) {
	u := new(conf.Update)
	var peer *conf.PeerUpdate
	for len(args) > 0 {
		name := args[0]
		args = args[1:]
		if name == "remove" && peer != nil {
			peer.Remove = true
			continue
		}
		if !isSetting(name, peer != nil) {
			of := "an interface"
			if peer != nil {
				of = "a peer"
			}
			return u, fmt.Errorf("%s: not a setting of %s", name, of)
		}
		if len(args) == 0 {
			return u, fmt.Errorf("%s: no value", name)
		}
		value := args[0]
		args = args[1:]
		var err error
		switch {
		case name == "peer":
			u.Peers = append(u.Peers, conf.PeerUpdate{})
			peer = &u.Peers[len(u.Peers)-1]
			peer.PublicKey, err = conf.ParseKey(value)
		case peer != nil:
			err = t.setPeer(peer, name, value)
		default:
			err = setDevice(u, name, value)
		}
		if err != nil {
			return u, fmt.Errorf("%s: %w", name, err)
		}
	}
	return u, nil
}

func isSetting(name string, ofPeer bool) bool {
	switch name {
	case "peer":
		return true
	case "listen-port", "fwmark", "private-key":
		return !ofPeer
	case "preshared-key", "endpoint", "persistent-keepalive", "allowed-ips":
		return ofPeer
	}
	return false
}

func setDevice(u *conf.Update, name, value string) error {
	switch name {
	case "listen-port":
		n, err := conf.ParsePort(value)
		u.ListenPort = &n
		return err
	case "fwmark":
		n, err := conf.ParseMark(value)
		u.FirewallMark = &n
		return err
	default: // private-key
		k, err := keyFile(value)
		u.PrivateKey = &k
		return err
	}
}

func (t *Tool) setPeer(p *conf.PeerUpdate, name, value string) error {
	switch name {
	case "preshared-key":
		k, err := keyFile(value)
		p.PresharedKey = &k
		return err
	case "endpoint":
		e, err := conf.ParseEndpoint(value)
		if err != nil {
			return err
		}
		if _, err := retries(); err != nil {
			return err
		}
		addr, numeric := e.AddrPort()
		if !numeric {
			if addr, err = t.resolve(e); err != nil {
				return err
			}
		}
		p.Endpoint = &addr
		return nil
	case "persistent-keepalive":
		n, err := conf.ParseKeepalive(value)
		p.PersistentKeepalive = &n
		return err
	default: // allowed-ips
		ips, change, warnings, err := conf.ParseAllowedIPs(value)
		for _, w := range warnings {
			t.Warn(name + ": " + w)
		}
		p.ReplaceAllowedIPs = !change
		p.AllowedIPs = append(p.AllowedIPs, ips...)
		return err
	}
}

const keyText = 44 // characters of a key in base64

// keyFile reads a key and white space behind it. An empty file, or /dev/null, is the zero
// key, which removes one. An empty pipe is a program that failed.
func keyFile(path string) (k conf.Key, err error) {
	f, err := os.Open(path)
	if err != nil {
		return k, err
	}
	defer f.Close()
	buf := make([]byte, 4096)
	defer clear(buf)
	n, err := io.ReadFull(f, buf)
	switch {
	case err == io.EOF:
		info, err := f.Stat()
		if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			err = fmt.Errorf("%s: empty", path)
		}
		return k, err
	case err == nil:
		return k, fmt.Errorf("%s: more than a key", path)
	case err != io.ErrUnexpectedEOF:
		return k, err
	case n < keyText || len(bytes.TrimRight(buf[keyText:n], " \t\n\v\f\r")) != 0:
		return k, fmt.Errorf("%s: not a key and nothing else (expected %d characters of base64)", path, keyText)
	}
	if k, err = conf.ParseKey(string(buf[:keyText])); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return k, err
}
