// Package oracle is for tests: files, and what stock wg(8) makes of them.
package oracle

import "strings"

// Keys of the files. Public is the key of Private.
const (
	Private = "QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEA="
	Public  = "17XoHTNuV4sTuNcG6C0GHjA4yWvOZs3PUNVmuW3buhA="
	PeerA   = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
	PeerB   = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="

	iface = "[Interface]\nPrivateKey = " + Private + "\nListenPort = 51820\n"
	peer  = iface + "[Peer]\nPublicKey = " + PeerA + "\n"
)

// A Row is a file.
type Row struct {
	Name string
	In   string
	Want string
	Wg   string // if wg differs: its result, or "error"
	Why  string // we differ
}

// Rows have what wg setconf of wireguard-tools 1.0.20210914 makes of each file, measured,
// and what conf.Parse makes of it. A result is the port, the mark, and endpoint,
// allowed IPs and keepalive of each peer; or the beginning of our error.
var Rows = []Row{
	{Name: "plain", In: peer + "AllowedIPs = 10.0.0.2/32\n", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "inline comment", In: peer + "AllowedIPs = 10.0.0.2/32 # one address\n", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "semicolon comment", In: peer + ";hi\nAllowedIPs = 10.0.0.2/32\n", Want: "51820 off; (none) 10.0.0.2/32 off",
		Wg: "error", Why: "accepted with a warning: other programs write it"},
	{Name: "lower-case keys/sections", In: strings.ToLower("[INTERFACE]\nLISTENPORT=51820\nprivatekey=") + Private + "\n[pEER]\npublickey=" + PeerA + "\nallowedips=10.0.0.2/32\n", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "spaces in section", In: strings.ReplaceAll(peer, "[Peer]", " [ Peer ] ") + "AllowedIPs = 10.0.0.2/32\n", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: `space inside key "Allowed IPs"`, In: peer + "Allowed IPs = 10.0.0.2/32\n", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "space inside value", In: peer + "AllowedIPs = 10. 0.0.2 /32\n", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "CRLF", In: strings.ReplaceAll(peer+"AllowedIPs = 10.0.0.2/32\n", "\n", "\r\n"), Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "UTF-8 BOM", In: "\ufeff" + peer + "AllowedIPs = 10.0.0.2/32\n", Want: "51820 off; (none) 10.0.0.2/32 off",
		Wg: "error", Why: "accepted with a warning: editors write it, and do not show it"},
	{Name: "no final newline", In: peer + "AllowedIPs = 10.0.0.2/32", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "tab indent", In: peer + "\tAllowedIPs\t=\t10.0.0.2/32\n", Want: "51820 off; (none) 10.0.0.2/32 off"},
	{Name: "NBSP around =", In: peer + "AllowedIPs\u00a0=\u00a010.0.0.2/32\n", Want: "f:6:11: character U+00A0, which looks like a space or like nothing (expected a plain space)"},
	{Name: "dup [Interface] last wins", In: peer + "AllowedIPs = 10.0.0.2/32\n[Interface]\nListenPort = 51999\n", Want: "51999 off; (none) 10.0.0.2/32 off"},
	{Name: "same peer twice", In: peer + "AllowedIPs = 10.0.0.2/32\n[Peer]\nPublicKey = " + PeerA + "\nAllowedIPs = 10.0.0.3/32\n", Want: "51820 off; (none) 10.0.0.3/32 off"},
	{Name: "AllowedIPs twice", In: peer + "AllowedIPs = 10.0.0.2/32\nAllowedIPs = 10.0.0.3/32\n", Want: "51820 off; (none) 10.0.0.2/32,10.0.0.3/32 off"},
	{Name: "AllowedIPs empty", In: peer + "AllowedIPs =\n", Want: "f:6:13: AllowedIPs: no address (expected 192.0.2.0/24 or 2001:db8::/32)"},
	{Name: "AllowedIPs trailing comma", In: peer + "AllowedIPs = 10.0.0.2/32,\n", Want: "f:6:26: AllowedIPs: no address"},
	{Name: "AllowedIPs double comma", In: peer + "AllowedIPs = 10.0.0.2/32,,10.0.0.3/32\n", Want: "f:6:26: AllowedIPs: no address"},
	{Name: "AllowedIPs no mask", In: peer + "AllowedIPs = 10.0.0.2, fd00::2\n", Want: "51820 off; (none) 10.0.0.2/32,fd00::2/128 off"},
	{Name: "AllowedIPs host bits", In: peer + "AllowedIPs = 10.0.0.2/24\n", Want: "51820 off; (none) 10.0.0.0/24 off"},
	{Name: "AllowedIPs /33", In: peer + "AllowedIPs = 10.0.0.1, 10.0.0.2/33\n", Want: "f:6:24: AllowedIPs: 10.0.0.2/33: prefix longer than 32 bits (expected "},
	{Name: "AllowedIPs dotted mask", In: peer + "AllowedIPs = 10.0.0.0/255.255.255.0\n", Want: "f:6:14: AllowedIPs: 10.0.0.0/255.255.255.0: prefix length is not a number (expected "},
	{Name: "AllowedIPs 010.0.0.2", In: peer + "AllowedIPs = 010.0.0.2\n", Want: "f:6:14: AllowedIPs: 010.0.0.2: not an address (expected "},
	{Name: "AllowedIPs +/- prefix", In: peer + "AllowedIPs = +10.0.0.2\n", Want: "f:6:14: AllowedIPs: +10.0.0.2: not an address (expected "},
	{Name: "same ip on 2 peers", In: peer + "AllowedIPs = 10.0.0.2/32\n[Peer]\nPublicKey = " + PeerB + "\nAllowedIPs = 10.0.0.2/32\n", Want: "51820 off; (none) (none) off; (none) 10.0.0.2/32 off"},
	// It is the daemon that ignores this peer.
	{Name: "peer == own key", In: strings.ReplaceAll(peer, PeerA, Public), Want: "51820 off; (none) (none) off"},
	{Name: "peer no pubkey", In: iface + "\n[Peer]\nAllowedIPs = 10.0.0.2/32\n", Want: "f:5:1: PublicKey: missing in this [Peer] (expected one)"},
	{Name: "key w/o padding", In: iface + "[Peer]\nPublicKey = " + PeerA[:43] + "\n", Want: "f:5:13: PublicKey: not a key (expected 44 characters of base64)"},
	{Name: "key 43+junk", In: iface + "[Peer]\nPublicKey = " + PeerA[:42] + "J=\n", Want: "f:5:13: PublicKey: not a key (expected 44 characters of base64)"},
	{Name: "key urlsafe b64", In: iface + "[Peer]\nPublicKey = -_" + PeerA[2:] + "\n", Want: "f:5:13: PublicKey: not a key (expected 44 characters of base64)"},
	{Name: "PersistentKeepalive off", In: peer + "PersistentKeepalive = off\n", Want: "51820 off; (none) (none) off"},
	{Name: "PersistentKeepalive 65536", In: peer + "PersistentKeepalive = 65536\n", Want: "f:6:23: PersistentKeepalive: 65536: out of range (expected off, or 0 to 65535 seconds)"},
	{Name: "PersistentKeepalive 25s", In: peer + "PersistentKeepalive = 25s\n", Want: "f:6:23: PersistentKeepalive: 25s: not a number (expected off, or 0 to 65535 seconds)"},
	{Name: "FwMark 0xca6c", In: iface + "FwMark = 0xca6c\n", Want: "51820 0xca6c"},
	{Name: "FwMark 0XCA6C", In: iface + "FwMark = 0XCA6C\n", Want: "f:4:10: FwMark: 0XCA6C: not a number (expected off, or 0 to 4294967295, or 0x0 to 0xffffffff)"},
	{Name: "FwMark off", In: iface + "FwMark = off\n", Want: "51820 off"},
	{Name: "ListenPort 0", In: iface + "ListenPort = 0\n", Want: "0 off"},
	{Name: "ListenPort 65536", In: iface + "ListenPort = 65536\n", Want: "f:4:14: ListenPort: 65536: out of range (expected 0 to 65535)",
		Wg: "0 off", Why: "wg takes it for 0, a port at random"},
	{Name: "ListenPort domain (service name)", In: iface + "ListenPort = domain\n", Want: "f:4:14: ListenPort: domain: not a number (expected 0 to 65535)",
		Wg: "53 off", Why: "what it means depends on the machine"},
	{Name: "Endpoint v4", In: peer + "Endpoint = 1.2.3.4:5\n", Want: "51820 off; 1.2.3.4:5 (none) off"},
	{Name: "Endpoint port 0", In: peer + "Endpoint = 1.2.3.4:0\n", Want: "51820 off; 1.2.3.4:0 (none) off"},
	{Name: "Endpoint no port", In: peer + "Endpoint = 1.2.3.4\n", Want: "f:6:12: Endpoint: 1.2.3.4: no port (expected 192.0.2.1:51820, [2001:db8::1]:51820 or name:51820)"},
	{Name: "Endpoint port 65536", In: peer + "Endpoint = 1.2.3.4:65536\n", Want: "f:6:12: Endpoint: 1.2.3.4:65536: port out of range 0 to 65535 (expected ",
		Wg: "51820 off; 1.2.3.4:0 (none) off", Why: "wg takes it for port 0"},
	{Name: "Endpoint v6 bare", In: peer + "Endpoint = fd99::2:51820\n", Want: "51820 off; [fd99::2]:51820 (none) off"},
	{Name: "Endpoint v6 brackets", In: peer + "Endpoint = [fd99::2]:51820\n", Want: "51820 off; [fd99::2]:51820 (none) off"},
	{Name: "Endpoint v6 zone name", In: peer + "Endpoint = [fe80::1%lo]:51820\n", Want: "51820 off; [fe80::1%lo]:51820 (none) off"},
	{Name: "Endpoint v6 zone num", In: peer + "Endpoint = [fe80::1%1]:51820\n", Want: "51820 off; [fe80::1%1]:51820 (none) off",
		Wg: "51820 off; [fe80::1%lo]:51820 (none) off", Why: "the same: zones are kept as they are written, and wg asks the kernel for the name"},
	{Name: "Endpoint v4-mapped", In: peer + "Endpoint = [::ffff:1.2.3.4]:51820\n", Want: "51820 off; [::ffff:1.2.3.4]:51820 (none) off"},
	{Name: "Endpoint hostname localhost", In: peer + "Endpoint = localhost:51820\n", Want: "51820 off; 127.0.0.1:51820 (none) off"},
	{Name: "Endpoint unresolvable host", In: peer + "Endpoint = nope.invalid:51820\n", Want: "endpoint of peer " + PeerA + ": nope.invalid: no such host"},
	{Name: "Endpoint service name port", In: peer + "Endpoint = 1.2.3.4:domain\n", Want: "f:6:12: Endpoint: 1.2.3.4:domain: port is not a number (expected ",
		Wg: "51820 off; 1.2.3.4:53 (none) off", Why: "what it means depends on the machine"},
	{Name: "Endpoint decimal ip", In: peer + "Endpoint = 16909060:5\n", Want: "f:6:12: Endpoint: 16909060:5: not an IPv4 address of four decimal numbers (expected ",
		Wg: "51820 off; 1.2.3.4:5 (none) off", Why: "a typing error is likelier"},
	{Name: "Address key (wg-quick) in setconf", In: iface + "Address = 10.0.0.1/24\n", Want: "51820 off",
		Wg: "error", Why: "files of wg-quick are accepted as they are"},
	{Name: "Memory and Offload in setconf", In: iface + "Memory = 32M\nOffload = gso,gro\n", Want: "51820 off",
		Wg: "error", Why: "keys of ours"},
	{Name: "unknown key", In: iface + "Foo = 1\n", Want: "f:4:1: Foo: unknown key (expected one of PrivateKey, "},
	{Name: "unknown section", In: iface + "[Foo]\n", Want: "f:4:1: unknown section (expected [Interface] or [Peer])"},
	{Name: "key before section", In: "ListenPort = 1\n", Want: "f:1:1: ListenPort: stands before the first section (expected [Interface] or [Peer] above it)"},
	{Name: "empty file", In: "", Want: "0 off"},
	{Name: "value with = only", In: iface + "ListenPort\n", Want: "f:4:1: neither a section nor a key (expected Key = value)"},
	{Name: "PSK zero", In: peer + "PresharedKey = AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", Want: "51820 off; (none) (none) off"},
}
