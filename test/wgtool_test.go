package test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wgd/internal/loud"
	"wgd/internal/oracle"
)

// A toolCase is a call of wg. In args {if} is an interface, {P}, {Q} and {N} are the
// public keys of two peers and of nobody, @NAME is a file, ” is an empty argument and ~
// stands for a space in one. Where ours differs, why says so.
type toolCase struct {
	args   string
	stdin  string
	env    string
	stdout string // where it goes: "" is a pipe, tty a terminal, else a file
	nobody bool   // called by an ordinary user
	why    string
}

const (
	toolPeerP = oracle.PeerA
	toolPeerQ = oracle.PeerB
	toolPeerN = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk="
)

// Why syncconf differs.
const (
	syncPort    = "any port will do where the file has none: the one that peers know"
	syncRemoves = "wireguard-tools of 2025 remove what the file leaves out: preshared key, keepalive"
)

// fields of wg show.
var toolFields = []string{"public-key", "private-key", "listen-port", "fwmark", "peers", "preshared-keys", "endpoints", "allowed-ips",
	"latest-handshakes", "transfer", "persistent-keepalive", "dump"}

// toolFiles are key files and configurations.
var toolFiles = map[string]string{
	"key":         toolPeerN + "\n",
	"key-bare":    toolPeerN,
	"key-spaces":  toolPeerN + " \n\t\n\r\n",
	"key-twice":   toolPeerN + toolPeerN,
	"key-lines":   toolPeerN + "\n" + toolPeerN + "\n",
	"key-text":    toolPeerN + " x\n",
	"key-nul":     toolPeerN + "\x00",
	"key-late":    " " + toolPeerN + "\n",
	"key-short":   toolPeerN[:43] + "\n\n\n",
	"key-blank":   "\n",
	"key-junk":    strings.Repeat("-", 44) + "\n",
	"key-empty":   "",
	"conf-empty":  "",
	"conf-header": "[Interface]\n",
	"conf-port":   "[Interface]\nListenPort = 1\n",
	"conf-mark":   "[Interface]\nListenPort = 51820\nFwMark = 0x7\n",
	"conf-whole": "[Interface]\nPrivateKey = " + toolPeerN + "\nListenPort = 51820\nFwMark = 51820\n" +
		"[Peer]\nPublicKey = " + toolPeerP + "\nAllowedIPs = 10.0.0.0/8, fd00::/64\nEndpoint = 192.0.2.1:5\n" +
		"[Peer]\nPublicKey = " + toolPeerN + "\nAllowedIPs = 10.9.0.0/16\nPersistentKeepalive = 7\n" +
		"[Peer]\nPublicKey = " + toolPeerQ + "\nPresharedKey = " + toolPeerQ + "\nAllowedIPs = 10.1.0.0/16\nPersistentKeepalive = 25\n",
	"conf-swap": "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerP + "\nAllowedIPs = 10.1.0.0/16\n" +
		"[Peer]\nPublicKey = " + toolPeerQ + "\nPresharedKey = " + toolPeerQ + "\nAllowedIPs = 10.0.0.0/8\nPersistentKeepalive = 25\n",
	"conf-shared": "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerP + "\nAllowedIPs = 10.0.0.0/8, 10.7.0.0/16\n" +
		"[Peer]\nPublicKey = " + toolPeerN + "\nAllowedIPs = 10.0.0.0/8\n",
	"conf-again": "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerN + "\nAllowedIPs = 10.9.0.0/16\nPersistentKeepalive = 9\n" +
		"[Peer]\nPublicKey = " + toolPeerP + "\nAllowedIPs = 10.9.0.0/16, 10.8.0.0/16\n" +
		"[Peer]\nPublicKey = " + toolPeerN + "\nAllowedIPs = 10.8.0.0/16\nEndpoint = 192.0.2.9:9\n",
	"conf-bare": "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerP + "\nAllowedIPs = 10.0.0.0/8,fd00::/64\n" +
		"[Peer]\nPublicKey = " + toolPeerQ + "\nAllowedIPs = 10.1.0.0/16\n",
	"conf-off": "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerQ + "\nAllowedIPs = 10.1.0.0/16\nPersistentKeepalive = off\n" +
		"PresharedKey = AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
	"conf-blanks":  "[Interface]\nListenPort=51820\n[Peer]\nPublicKey=" + toolPeerN + "\nAllowedIPs=10.9.0.0/16,fd09::/64\n",                                                                              // B07
	"conf-comment": "[Interface]\nListenPort = 51820\n#[Peer]\n#PublicKey = " + toolPeerP + "\n# AllowedIPs = 10.9.0.0/16\n",                                                                              // B08
	"conf-case":    "[interface]\nlistenPORT = 51820\n[PEER]\nPublickey = " + toolPeerN + "\nPRESHAREDKEY = " + toolPeerP + "\nallowedips = 10.9.0.0/16\nendpoint = 1.2.3.4:5\npersistentKeepAlive = 7\n", // B09
	"conf-name":    "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerP + "\nEndpoint = localhost:7\n",
	"conf-zone":    "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerP + "\nEndpoint = [fe80::1%nope]:7\n",
	"conf-peer":    "[Peer]\nPublicKey = " + toolPeerN + "\nAllowedIPs = 10.9.0.0/16\n",
	"conf-long":    "[Interface]\nListenPort = 51820\n[Peer]\nPublicKey = " + toolPeerP + "\nAllowedIPs = " + strings.Repeat("10.3.0.0/16,", 999) + "10.4.0.0/16\n",
}

// The state of the daemons before each case.
var toolState = "private_key=" + asHex(oracle.Private) + "\nlisten_port=51820\nfwmark=51820\nreplace_peers=true\n" +
	"public_key=" + asHex(toolPeerP) + "\nendpoint=192.0.2.1:5\nreplace_allowed_ips=true\nallowed_ip=10.0.0.0/8\nallowed_ip=fd00::/64\n" +
	"public_key=" + asHex(toolPeerQ) + "\npreshared_key=" + asHex(toolPeerQ) + "\npersistent_keepalive_interval=25\nreplace_allowed_ips=true\nallowed_ip=10.1.0.0/16\n"

// setCases change {if}, or do not.
func setCases() (all []toolCase) {
	add := func(why, args string) { all = append(all, toolCase{args: args, why: why}) }
	for name := range toolFiles {
		if strings.HasPrefix(name, "key") {
			add("", "set {if} private-key @"+name)
			add("", "set {if} peer {P} preshared-key @"+name)
		}
	}
	for _, args := range []string{
		"set", "set {if}", "set --help", "set -h", "set help", "set {if} --help", "set {if} bogus", "set {if} ''", "set nosuch bogus",
		"set {if} private-key /dev/null", "set {if} private-key @nosuch", "set {if} private-key /", "set {if} private-key ''", "set {if} private-key",
		"set {if} private-key @key-empty private-key @key", "set {if} private-key @key peer {P} private-key @key",
		"set {if} listen-port 0", "set {if} listen-port 1", "set {if} listen-port 65535", "set {if} listen-port -1", "set {if} listen-port ''",
		"set {if} listen-port 0x10", "set {if} listen-port 1x", "set {if} listen-port", "set {if} listen-port 1 listen-port 2",
		"set {if} listen-port 007", "set {if} listen-port x fwmark 1", "set {if} fwmark 1 listen-port x",
		"set {if} fwmark 0", "set {if} fwmark off", "set {if} fwmark OFF", "set {if} fwmark 0x", "set {if} fwmark 0x0", "set {if} fwmark 0xffffffff",
		"set {if} fwmark 0xABCDEF", "set {if} fwmark 0x100000000", "set {if} fwmark 4294967295", "set {if} fwmark 4294967296", "set {if} fwmark -1",
		"set {if} fwmark ''", "set {if} fwmark 1x", "set {if} fwmark 010", "set {if} fwmark 0XFF", "set {if} fwmark", "set {if} fwmark on",
		"set {if} peer", "set {if} peer x", "set {if} peer ''", "set {if} peer {N}", "set {if} peer {N} peer {P}", "set {if} peer {N} peer {N}",
		"set {if} peer {N} bogus", "set {if} Peer {P}", "set {if} peer {P} Remove", "set {if} peer {P} remove", "set {if} peer {N} remove", "set {if} remove",
		"set {if} peer {P} remove endpoint 1.2.3.4:5 allowed-ips 10.0.0.0/8 preshared-key @key persistent-keepalive 5",
		"set {if} peer {P} remove peer {P} allowed-ips 10.0.0.0/8", "set {if} peer {P} remove remove", "set {if} peer {P} remove peer {Q} remove",
		"set {if} peer 17XoHTNuV4sTuNcG6C0GHjA4yWvOZs3PUNVmuW3buhA= allowed-ips 10.7.0.0/16",
		"set {if} endpoint 1.2.3.4:5", "set {if} allowed-ips 10.0.0.0/8", "set {if} persistent-keepalive 5", "set {if} preshared-key @key",
		"set {if} peer {P} listen-port 1", "set {if} peer {P} fwmark 1",
		"set {if} peer {P} persistent-keepalive 0", "set {if} peer {Q} persistent-keepalive off", "set {if} peer {Q} persistent-keepalive OFF",
		"set {if} peer {P} persistent-keepalive 1", "set {if} peer {P} persistent-keepalive 65535", "set {if} peer {P} persistent-keepalive 65536",
		"set {if} peer {P} persistent-keepalive -1", "set {if} peer {P} persistent-keepalive ''", "set {if} peer {P} persistent-keepalive 25s",
		"set {if} peer {P} persistent-keepalive 010", "set {if} peer {P} persistent-keepalive 0x10", "set {if} peer {P} persistent-keepalive",
		"set {if} peer {P} allowed-ips ''", "set {if} peer {P} allowed-ips ~", "set {if} peer {P} allowed-ips ,", "set {if} peer {P} allowed-ips",
		"set {if} peer {P} allowed-ips 10.0.0.1", "set {if} peer {P} allowed-ips fd00::1", "set {if} peer {P} allowed-ips 10.0.0.1/24",
		"set {if} peer {P} allowed-ips 10.1.0.0/16", "set {if} peer {P} allowed-ips 10.0.0.0/8,~fd00::/64", "set {if} peer {P} allowed-ips 10.0.0.0/8,",
		"set {if} peer {P} allowed-ips ,10.0.0.0/8", "set {if} peer {P} allowed-ips 10.0.0.0/33", "set {if} peer {P} allowed-ips 10.0.0.0/",
		"set {if} peer {P} allowed-ips 10.0.0.0/x", "set {if} peer {P} allowed-ips fd00::1/129", "set {if} peer {P} allowed-ips fd00::1/64",
		"set {if} peer {P} allowed-ips 0.0.0.0/0,::/0", "set {if} peer {P} allowed-ips ::ffff:1.2.3.4/128", "set {if} peer {P} allowed-ips 1.2.3",
		"set {if} peer {P} allowed-ips 10.0.0.0/08", "set {if} peer {P} allowed-ips 010.0.0.0/8", "set {if} peer {P} allowed-ips host",
		"set {if} peer {P} allowed-ips 10.0.0.0/255.0.0.0", "set {if} peer {P} allowed-ips fe80::1%lo", "set {if} peer {P} allowed-ips 10.0.0.0/8/8",
		"set {if} peer {P} allowed-ips 10.0.0.0/-1", "set {if} peer {P} allowed-ips 10.0.0.0/8 allowed-ips 11.0.0.0/8",
		"set {if} peer {P} allowed-ips 10.0.0.0/8,10.0.0.0/8", "set {if} peer {P} allowed-ips 10.0.0.1/24 persistent-keepalive x",
		"set {if} peer {P} endpoint ''", "set {if} peer {P} endpoint 1.2.3.4", "set {if} peer {P} endpoint 1.2.3.4:", "set {if} peer {P} endpoint :5",
		"set {if} peer {P} endpoint 1.2.3.4:5", "set {if} peer {P} endpoint 1.2.3.4:5~", "set {if} peer {P} endpoint [::1]:5", "set {if} peer {P} endpoint ::1:5",
		"set {if} peer {P} endpoint [::1]", "set {if} peer {P} endpoint [::1", "set {if} peer {P} endpoint [::1]5", "set {if} peer {P} endpoint []:5",
		"set {if} peer {P} endpoint [fe80::1%lo]:5", "set {if} peer {P} endpoint [fe80::1%1]:5", "set {if} peer {P} endpoint [fe80::1%nope]:5",
		"set {if} peer {P} endpoint localhost:5", "set {if} peer {P} endpoint nope.invalid:5", "set {if} peer {P} endpoint 1.2.3.4:0",
		"set {if} peer {P} endpoint 1.2.3.4:-1", "set {if} peer {P} endpoint [1.2.3.4]:5", "set {if} peer {P} endpoint [::ffff:1.2.3.4]:5",
		"set {if} peer {P} endpoint 256.1.1.1:5", "set {if} peer {P} endpoint", "set {if} peer {P} endpoint 1.2.3.4:5 endpoint 1.2.3.4:6",
		"set {if} peer {P} preshared-key /dev/null", "set {if} peer {Q} preshared-key /dev/null", "set {if} peer {P} preshared-key @nosuch",
		"set {if} peer {P} preshared-key", "set {if} peer {P} preshared-key @key preshared-key @key-empty",
		"set {if} listen-port 5 fwmark 7 private-key @key peer {N} preshared-key @key endpoint 1.2.3.4:5 persistent-keepalive 9 allowed-ips 10.9.0.0/16 peer {Q} remove",
		"set nosuch listen-port 1", "set ../{if} listen-port 1", "set a/../{if} listen-port 1", "set '' listen-port 1", "set an-interface-name-that-is-too-long listen-port 1",
		"set plain listen-port 1", "set dir listen-port 1", "set stale listen-port 1", "set refusing listen-port 1", "set silent listen-port 1", "set garbage listen-port 1",
		"addconf refusing @conf-peer", "syncconf refusing @conf-peer", "setconf refusing @conf-peer", "setconf stale @conf-port", "syncconf garbage @conf-peer",
	} {
		add("", args)
	}
	add("", "set {if} peer {P} allowed-ips "+strings.Repeat("10.3.0.0/16,", 999)+"10.4.0.0/16")
	const port, newer, digits = "a port is a number up to 65535", "wireguard-tools of 2025 have it", "IPv4 addresses are four numbers"
	add(port, "set {if} listen-port 65536")
	add(port, "set {if} listen-port domain")
	add(port, "set {if} listen-port +1")
	add(port, "set {if} peer {P} endpoint 1.2.3.4:65536")
	add(port, "set {if} peer {P} endpoint 1.2.3.4:domain")
	add(digits, "set {if} peer {P} endpoint 1.2:5")
	add(digits, "set {if} peer {P} endpoint 16909060:5")
	add(newer, "set {if} peer {P} allowed-ips +10.3.0.0/16")
	add(newer, "set {if} peer {P} allowed-ips -10.0.0.0/8")
	add(newer, "set {if} peer {P} allowed-ips +10.3.0.0/16,-10.0.0.0/8")
	add("", "set {if} peer {P} allowed-ips ++10.3.0.0/16")
	add("", "set {if} peer {P} allowed-ips +")

	all = append(all,
		toolCase{args: "set {if} private-key /dev/stdin", stdin: toolPeerN + "\n"},
		toolCase{args: "set {if} peer {P} preshared-key /dev/stdin", stdin: toolPeerN},
		toolCase{args: "set {if} peer {P} preshared-key /dev/stdin", stdin: ""},
		toolCase{args: "set {if} peer {P} preshared-key /dev/stdin", stdin: "x"},
		toolCase{args: "setconf {if} /dev/stdin", stdin: toolFiles["conf-whole"]},
		toolCase{args: "addconf {if} /dev/stdin", stdin: toolFiles["conf-peer"]},
		toolCase{args: "syncconf {if} /dev/stdin", stdin: toolFiles["conf-whole"]},
		toolCase{args: "set {if} peer {P} endpoint 1.2.3.4:5", env: "WG_ENDPOINT_RESOLUTION_RETRIES=x"},
		toolCase{args: "set {if} peer {P} endpoint nope.invalid:5", env: "WG_ENDPOINT_RESOLUTION_RETRIES=x"},
		toolCase{args: "set {if} peer {P} endpoint nope.invalid:5", env: "WG_ENDPOINT_RESOLUTION_RETRIES=1"},
	)
	for _, command := range []string{"setconf", "addconf", "syncconf"} {
		for _, args := range []string{"", " {if}", " {if} @conf-whole x", " --help", " {if} @nosuch", " {if} ''", " nosuch @conf-whole", " nosuch @nosuch", " plain @conf-whole"} {
			add("", command+args)
		}
		add("a directory is no file", command+" {if} /")
		for name := range toolFiles {
			if !strings.HasPrefix(name, "conf") {
				continue
			}
			why := ""
			if command == "syncconf" {
				switch name {
				case "conf-empty", "conf-header", "conf-peer":
					why = syncPort
				case "conf-bare":
					why = syncRemoves
				}
			}
			add(why, command+" {if} @"+name)
		}
	}
	return all
}

// showCases change nothing.
func showCases() (all []toolCase) {
	add := func(args string) { all = append(all, toolCase{args: args}) }
	for _, what := range []string{"{if}", "scripted", "compatible", "empty", "all", "interfaces", "refusing", "garbage", "half", "nosuch", "plain"} {
		add("show " + what)
		add("show " + what + " bogus")
		for _, field := range toolFields {
			why := ""
			if what == "all" && field == "endpoints" {
				why = "each line begins with the interface, as the manual has it"
			}
			all = append(all, toolCase{args: "show " + what + " " + field, why: why})
		}
		add("showconf " + what)
	}
	for _, args := range []string{"", "show", "show ''", "show {if} ''", "show {if} dump x", "show {if} Dump", "show --help", "show -h", "show help", "show {if} --help", "show all all",
		"show stale", "show dir", "show ../wireguard/{if}", "show an-interface-name-that-is-too-long", "show all dump dump", "show silent", "show silent dump",
		"showconf", "showconf {if} x", "showconf --help", "showconf ''", "showconf silent",
		"bogus", "bogus --help", "-x", "''", "Show", "show-conf", "genkey x", "genpsk x", "pubkey x", "genkey --help", "pubkey --help"} {
		add(args)
	}
	for _, env := range []string{"WG_COLOR_MODE=always", "WG_COLOR_MODE=never", "WG_COLOR_MODE=auto", "WG_COLOR_MODE=ALWAYS", "WG_COLOR_MODE=", "WG_HIDE_KEYS=never",
		"WG_HIDE_KEYS=always", "WG_HIDE_KEYS=NEVER", "WG_HIDE_KEYS=", "WG_HIDE_KEYS=never WG_COLOR_MODE=always", "LC_ALL=de_DE.UTF-8"} {
		for _, args := range []string{"show", "show scripted", "show {if}", "show all dump"} {
			all = append(all, toolCase{args: args, env: env})
		}
	}
	for name, text := range toolFiles {
		if strings.HasPrefix(name, "key") {
			all = append(all, toolCase{args: "pubkey", stdin: text})
		}
	}
	for _, args := range []string{"", "show", "show {if}", "show scripted", "show scripted dump", "show interfaces", "showconf scripted"} {
		for _, env := range []string{"", "WG_COLOR_MODE=never", "WG_COLOR_MODE=auto", "WG_COLOR_MODE=x", "WG_HIDE_KEYS=never"} {
			all = append(all, toolCase{args: args, env: env, stdout: "tty"})
		}
	}
	for _, args := range []string{"show", "show all dump", "show interfaces", "show {if}", "show {if} dump", "showconf {if}", "set {if} listen-port 1", "setconf {if} @conf-port"} {
		all = append(all, toolCase{args: args, nobody: true})
	}
	for _, args := range []string{"show scripted", "show scripted dump", "show interfaces", "showconf scripted"} {
		all = append(all, toolCase{args: args, stdout: "/dev/full", why: "what cannot be written is an error"})
	}
	return all
}

// Daemons that a script plays. {N} is the time in N seconds.
var toolScripts = map[string]string{
	"scripted": "private_key=" + asHex(oracle.Private) + "\nlisten_port=51820\nfwmark=4294967295\n" +
		toolScriptPeer(3, 100, "192.0.2.1:5", 1<<40, 148, 25) + "preshared_key=" + asHex(oracle.PeerA) + "\nallowed_ip=10.0.0.0/8\nallowed_ip=fd00::/64\n" +
		toolScriptPeer(2, 1, "[fe80::1%lo]:51820", 1023, 1024, 1) +
		toolScriptPeer(1, 1<<40, "[::ffff:1.2.3.4]:51820", 0, 0, 0) +
		toolScriptPeer(5, -1000, "[fe80::1%1]:51820", 5555555, 1048575, 60) + "allowed_ip=0.0.0.0/0\nallowed_ip=::/0\n" +
		toolScriptPeer(6, 31628401, "[2001:db8::1]:1", 1073741823, 1073741824, 65535) +
		toolScriptPeer(7, 0, "", 0, 1, 3600) +
		toolScriptPeer(8, 3600, "", 1<<60-1, 1<<50, 61) + "unknown_key=7\n" +
		toolScriptPeer(9, 86400, "1.2.3.4:0", 1<<20, 1<<30, 120) + "allowed_ip=::ffff:1.2.3.4/128\n" +
		toolScriptPeer(10, 100, "192.0.2.1:5", 1536, 1<<41+1<<40/3, 7322) + "errno=0\n\n",
	"compatible": toolScriptPeer(1, 5, "[::102:304]:5", 0, 0, 0) + "allowed_ip=::1:0/112\nallowed_ip=::2/128\nallowed_ip=64:ff9b::102:304/128\nerrno=0\n\n",
	"empty":      "errno=0\n\n",
	"refusing":   "errno=5\n\n",
	"garbage":    "what?\nerrno=0\n\n",
	"half":       "listen_port=5\n",
	"silent":     "",
}

func toolScriptPeer(n byte, ago int64, endpoint string, rx, tx uint64, keepalive int) string {
	handshake := fmt.Sprintf("{%d}", -ago)
	if ago == 1<<40 {
		handshake = "0"
	}
	if endpoint != "" {
		endpoint = "endpoint=" + endpoint + "\n"
	}
	return fmt.Sprintf("public_key=%s\nprotocol_version=1\n%slast_handshake_time_sec=%s\nlast_handshake_time_nsec=0\nrx_bytes=%d\ntx_bytes=%d\npersistent_keepalive_interval=%d\n",
		strings.Repeat(fmt.Sprintf("%02x", n), 32), endpoint, handshake, rx, tx, keepalive)
}

// A toolBench has daemons in a network and a mount namespace of its own, where nobody
// else's sockets are.
type toolBench struct {
	t       *testing.T
	dir     string
	daemons []string
	stock   string
	ours    string
}

var toolTime = regexp.MustCompile(`\{-?\d+\}`)

func newToolBench(t *testing.T) *toolBench {
	t.Helper()
	stock, err := exec.LookPath("wg")
	if err != nil {
		loud.Skip(t, "wg(8) is not installed")
	}
	if version, _ := exec.Command(stock, "--version").Output(); !bytes.Contains(version, []byte("v1.0.20210914")) {
		loud.Skip(t, "the measured version of wg(8) is not installed")
	}
	daemons := []string{wgd(t), wireguardGo(t)}
	b := &toolBench{t: t, dir: t.TempDir(), stock: stock}
	b.ours = toolName(t)

	runtime.LockOSThread() // never unlocked: the namespaces end with the thread
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		t.Fatal("unshare:", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(os.MkdirAll(socketDir, 0o700))
	must(unix.Mount("none", socketDir, "tmpfs", 0, "mode=755"))
	hosts, resolv := filepath.Join(b.dir, "hosts"), filepath.Join(b.dir, "resolv.conf")
	must(os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o644))
	must(os.WriteFile(resolv, []byte("nameserver 127.0.0.1\n"), 0o644))
	must(unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""))
	must(unix.Mount(resolv, "/etc/resolv.conf", "", unix.MS_BIND, ""))
	must(exec.Command("ip", "link", "set", "lo", "up").Run())

	for name, text := range toolFiles {
		must(os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600))
	}
	for i, row := range oracle.Rows {
		must(os.WriteFile(filepath.Join(b.dir, fmt.Sprintf("row%d", i)), []byte(row.In), 0o600))
	}
	for _, program := range daemons {
		ifname := unique("t")
		cmd := exec.Command(program, "-f", ifname)
		cmd.Env = append(os.Environ(), "LOG_LEVEL=silent")
		must(cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Signal(unix.SIGTERM)
			cmd.Wait()
		})
		eventually(t, 20*time.Second, ifname+" answers", func() bool {
			c, err := net.Dial("unix", socketDir+ifname+".sock")
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		b.daemons = append(b.daemons, ifname)
	}
	for name, text := range toolScripts {
		b.script(name, text)
	}
	must(os.WriteFile(socketDir+"plain.sock", nil, 0o600))
	must(os.WriteFile(socketDir+"notes", nil, 0o600))
	must(os.Mkdir(socketDir+"dir.sock", 0o700))
	return b
}

// toolName is the path of our program called wg.
func toolName(t testing.TB) string {
	t.Helper()
	path := filepath.Join(binaries, "wg")
	if err := os.Symlink(wgdProgram.build(t), path); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return path
}

// script answers each operation by a text.
func (b *toolBench) script(name, text string) {
	l, err := net.Listen("unix", socketDir+name+".sock")
	if err != nil {
		b.t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // from another namespace it would remove another's
	b.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var operation []byte
			for buf := make([]byte, 4096); !bytes.HasSuffix(operation, []byte("\n\n")); {
				n, err := c.Read(buf)
				if err != nil {
					break
				}
				operation = append(operation, buf[:n]...)
			}
			now := time.Now().Unix()
			c.Write([]byte(toolTime.ReplaceAllStringFunc(text, func(s string) string {
				n, _ := strconv.ParseInt(strings.Trim(s, "{}"), 10, 64)
				return strconv.FormatInt(now+n, 10)
			})))
			c.Close()
		}
	}()
}

// stale leaves a socket on which nobody listens.
func (b *toolBench) stale() {
	os.Remove(socketDir + "stale.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: socketDir + "stale.sock"})
		unix.Close(fd)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// operate sends an operation to a daemon and returns its reply.
func (b *toolBench) operate(ifname, text string) string {
	b.t.Helper()
	c, err := net.Dial("unix", socketDir+ifname+".sock")
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(text)); err != nil {
		b.t.Fatal(err)
	}
	reply, buf := []byte(nil), make([]byte, 1<<16)
	for !bytes.HasSuffix(reply, []byte("\n\n")) {
		n, err := c.Read(buf)
		if err != nil {
			b.t.Fatal(err)
		}
		reply = append(reply, buf[:n]...)
	}
	return string(reply)
}

// A toolResult is what a script could see of a call.
type toolResult struct {
	stdout string
	code   int
	quiet  bool   // nothing on stderr
	state  string // of the daemon, and the files in the directory of the sockets
	stderr string
}

func (r toolResult) same(q toolResult) bool {
	return r.stdout == q.stdout && r.code == q.code && r.quiet == q.quiet && r.state == q.state
}

// without leaves out of the state what q has, too.
func (r toolResult) without(q toolResult) string {
	lines := slices.DeleteFunc(strings.Split(r.state, "\n"), func(line string) bool { return slices.Contains(strings.Split(q.state, "\n"), line) })
	if r.state != q.state && len(lines) == 0 {
		lines = []string{"the same lines in another order:\n" + r.state}
	}
	return fmt.Sprintf("exit %d, stdout %q, stderr %q, state %q", r.code, r.stdout, r.stderr, lines)
}

// run makes the call from the state that all cases begin with.
func (b *toolBench) run(program, ifname string, c toolCase) (r toolResult) {
	b.t.Helper()
	b.operate(ifname, "set=1\n"+toolState+"\n")
	b.stale()
	args := strings.Fields(c.args)
	for i, arg := range args {
		arg = strings.NewReplacer("{if}", ifname, "{P}", toolPeerP, "{Q}", toolPeerQ, "{N}", toolPeerN, "~", " ", "''", "").Replace(arg)
		if strings.HasPrefix(arg, "@") {
			arg = filepath.Join(b.dir, arg[1:])
		}
		args[i] = arg
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "WG_ENDPOINT_RESOLUTION_RETRIES=0")
	cmd.Env = append(cmd.Env, strings.Fields(c.env)...)
	cmd.Stdin = strings.NewReader(c.stdin)
	if c.nobody {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	finish := func() {}
	switch c.stdout {
	case "":
	case "tty":
		cmd.Stdout, finish = b.terminal(&stdout)
	default:
		f, err := os.OpenFile(c.stdout, os.O_WRONLY, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		cmd.Stdout, finish = f, func() { f.Close() }
	}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	finish()
	r = toolResult{stdout: stdout.String(), stderr: stderr.String(), quiet: stderr.Len() == 0, code: cmd.ProcessState.ExitCode()}
	r.state = b.state(ifname, strings.HasPrefix(c.args, "syncconf"))
	if strings.Contains(c.args, "conf {if}") && r.code == 0 {
		r.quiet = true // ours warns of more that a file may not mean
	}
	return r
}

// terminal opens one. What is written to it is in buf after finish.
func (b *toolBench) terminal(buf *bytes.Buffer) (tty *os.File, finish func()) {
	b.t.Helper()
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	}
	n := 0
	if err == nil {
		n, err = unix.IoctlGetInt(master, unix.TIOCGPTN)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		b.t.Fatal("a terminal: ", err)
	}
	done := make(chan struct{})
	go func() { // until the other end has been closed: EIO
		defer close(done)
		for chunk := make([]byte, 4096); ; {
			n, err := unix.Read(master, chunk)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				return
			}
			buf.Write(chunk[:n])
		}
	}()
	return tty, func() {
		tty.Close()
		<-done
		unix.Close(master)
	}
}

// state is the daemon's answer, and the directory. If sorted, the order of a peer's
// allowed IPs does not count: syncconf leaves a list that is the same as it is.
func (b *toolBench) state(ifname string, sorted bool) string {
	lines := strings.Split(b.operate(ifname, "get=1\n\n"), "\n")
	for i, line := range lines {
		if port, ok := strings.CutPrefix(line, "listen_port="); ok && len(port) == 5 && port != "51820" && port != "51999" && port != "65535" {
			lines[i] = "listen_port=random" // wireguard-go's choice
		}
	}
	if ifname == b.daemons[1] {
		sortPeers(lines) // wireguard-go has no order
	}
	if sorted {
		for from := 0; from < len(lines); from++ {
			to := from
			for to < len(lines) && strings.HasPrefix(lines[to], "allowed_ip=") {
				to++
			}
			slices.Sort(lines[from:to])
			from = max(from, to-1)
		}
	}
	files, _ := os.ReadDir(socketDir)
	for _, f := range files {
		lines = append(lines, f.Name())
	}
	return strings.Join(lines, "\n")
}

// sortPeers puts the peers of a state in the order of their keys.
func sortPeers(lines []string) {
	var peers [][]string
	first := -1
	last := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "errno=") })
	for i, line := range lines[:last] {
		if strings.HasPrefix(line, "public_key=") {
			if first < 0 {
				first = i
			}
			peers = append(peers, nil)
		}
		if first >= 0 {
			peers[len(peers)-1] = append(peers[len(peers)-1], line)
		}
	}
	if first >= 0 {
		slices.SortFunc(peers, slices.Compare)
		copy(lines[first:last], slices.Concat(peers...))
	}
}

// compare runs both, and tells whether stock wg succeeded. A second that passes between the two is not a difference.
func (b *toolBench) compare(ifname string, c toolCase) (ok bool) {
	b.t.Helper()
	var stock, ours toolResult
	for range 6 {
		stock, ours = b.run(b.stock, ifname, c), b.run(b.ours, ifname, c)
		if stock.same(ours) {
			break
		}
		if c.why != "" {
			return stock.code == 0
		}
	}
	what := strings.TrimSpace(c.env + " wg " + c.args)
	switch same := stock.same(ours); {
	case !same && c.why == "":
		b.t.Errorf("%s:\nstock %v\nours %v", what, stock.without(ours), ours.without(stock))
	case same && c.why != "":
		b.t.Errorf("%s: no difference, but a reason: %s", what, c.why)
	}
	for _, secret := range []string{toolPeerN[:43], oracle.Private} {
		if strings.Contains(ours.stderr, secret) && !strings.Contains(c.args, "{N}") {
			b.t.Errorf("%s: a key on stderr: %s", what, ours.stderr)
		}
	}
	return stock.code == 0
}

// Stock wg and ours, called wg, do the same, on our daemon and on wireguard-go.
func TestWgTool(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	n := 0
	sets := setCases()
	for i, row := range oracle.Rows {
		for _, command := range []string{"setconf", "addconf", "syncconf"} {
			why := row.Why
			if row.Name == "Endpoint v6 zone num" {
				why = "" // shown alike
			}
			if command == "syncconf" && (row.Name == "ListenPort 0" || row.Name == "empty file") {
				why = syncPort
			}
			if command == "syncconf" && row.Name == "same ip on 2 peers" {
				why = syncRemoves
			}
			sets = append(sets, toolCase{args: fmt.Sprintf("%s {if} @row%d", command, i), why: why})
		}
	}
	// What stock wg refuses does not depend on the daemon.
	var reach []toolCase
	for _, c := range sets {
		n++
		if b.compare(b.daemons[0], c) {
			reach = append(reach, c)
		}
	}
	for _, c := range reach {
		n++
		b.compare(b.daemons[1], c)
	}
	// With one peer, it has an order.
	b.operate(b.daemons[1], "set=1\n"+toolState+"public_key="+asHex(toolPeerQ)+"\nremove=true\n\n")
	for _, c := range showCases() {
		n++
		b.compare(b.daemons[0], c)
	}
	t.Logf("%d cases", n)
}

// Syncconf of a file with a new peer, and of one without it again, costs the others nothing,
// nor does a file that says the same.
func TestSyncConfKeepsSessions(t *testing.T) {
	t.Parallel()
	tun := newTunnel(t, tunnelOptions{a: []string{wgd(t)}, b: []string{wgd(t)}})
	tun.a.ping(tun.b.inner4, 2)
	at, sent := tun.a.handshake(), tun.a.value("tx_bytes")
	same := tun.a.run(wgd(t), "showconf", tun.a.ifname)
	more := same + "\n[Peer]\nPublicKey = " + newKey().public + "\nAllowedIPs = 10.77.0.0/16\n"
	for range 3 {
		for _, text := range []string{more, same, same} {
			tun.a.run(wgd(t), "syncconf", tun.a.ifname, file(t, "c", text))
			tun.a.ping(tun.b.inner4, 2)
		}
	}
	if now := tun.a.handshake(); now != at {
		t.Errorf("a new handshake at %d, the one before was at %d", now, at)
	}
	if got := tun.a.run(wgd(t), "showconf", tun.a.ifname); got != same {
		t.Errorf("showconf:\n%s\nwant\n%s", got, same)
	}
	if now := tun.a.value("tx_bytes"); now == sent {
		t.Error("nothing was sent")
	}
}
