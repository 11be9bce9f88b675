package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/device"
	"wgd/netcfg"
	"wgd/tun"
	"wgd/uapi"
)

const (
	confDir        = "/etc/wireguard"
	resolveTimeout = 10 * time.Second // of all names in a file together
	listenTimeout  = 5 * time.Second
	downTimeout    = 5 * time.Second
)

// A plan is what a file asks for.
type plan struct {
	name   string
	mtu    int
	update *conf.Update
	net    netcfg.Config
}

// confPath returns the path and the interface that `wgd up CONF` means.
func confPath(arg string) (path, name string, err error) {
	path = arg
	if !strings.HasSuffix(arg, ".conf") {
		if strings.Contains(arg, "/") {
			return "", "", fmt.Errorf("%s: the name of the file must be that of the interface and .conf", arg)
		}
		path = filepath.Join(confDir, arg+".conf")
	}
	name = strings.TrimSuffix(filepath.Base(path), ".conf")
	return path, name, tun.CheckName(name)
}

// load reads a file and resolves its names.
func load(arg string) (*plan, error) {
	path, name, err := confPath(arg)
	if err != nil {
		return nil, err
	}
	c, warnings, err := conf.Load(path)
	if err != nil {
		return nil, err
	}
	defer c.Wipe()
	for _, w := range warnings {
		warn(w)
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	update, err := c.Update(func(e conf.Endpoint) (netip.AddrPort, error) { return resolve(ctx, e) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := &plan{name: name, mtu: c.Interface.MTU, update: update, net: netcfg.Config{Addresses: c.Interface.Address}}
	if p.mtu == 0 {
		p.mtu = tun.DefaultMTU
	}
	switch c.Interface.Table {
	case "", "auto":
		for _, peer := range c.Peers {
			p.net.Routes = append(p.net.Routes, peer.AllowedIPs...)
		}
	case "off":
	default:
		return nil, fmt.Errorf("%s: Table: %s: only auto and off are known", path, c.Interface.Table)
	}
	if _, err := device.ParseOffload(c.Interface.Offload); err != nil {
		return nil, fmt.Errorf("%s: Offload: %w", path, err)
	}
	// By the environment they reach the daemon of up, too. What was there before wins.
	if c.Interface.Offload != "" {
		setDefault(envOffload, c.Interface.Offload)
	}
	if c.Interface.Memory != 0 {
		setDefault(envMemory, strconv.FormatInt(c.Interface.Memory, 10))
	}
	for _, key := range unsupported(&c.Interface) {
		warn(path + ": " + key + ": not supported, ignored")
	}
	return p, nil
}

func setDefault(env, value string) {
	if _, ok := os.LookupEnv(env); !ok {
		os.Setenv(env, value)
	}
}

func unsupported(i *conf.Interface) (keys []string) {
	for _, k := range []struct {
		name  string
		given bool
	}{
		{"DNS", len(i.DNS)+len(i.Search) > 0},
		{"PreUp", len(i.PreUp) > 0},
		{"PostUp", len(i.PostUp) > 0},
		{"PreDown", len(i.PreDown) > 0},
		{"PostDown", len(i.PostDown) > 0},
		{"SaveConfig", i.SaveConfig},
	} {
		if k.given {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// resolve takes the first address, in the order of RFC 6724.
func resolve(ctx context.Context, e conf.Endpoint) (netip.AddrPort, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", e.Host)
	if ctx.Err() != nil {
		return netip.AddrPort{}, fmt.Errorf("%s: no answer from the name servers within %v", e.Host, resolveTimeout)
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), e.Port), nil
}

// apply sets the interface up, configures the daemon, and adds addresses and
// routes. Sockets are open before the configuration, so that a port in use is an
// error and not something that the daemon tries again and again.
func (p *plan) apply(configure func(*conf.Update) error, state func() (*conf.State, error)) error {
	link, err := netcfg.Open(p.name)
	if err != nil {
		return err
	}
	defer link.Close()
	if err := link.SetUp(true); err != nil {
		return err
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		s, err := state()
		if err != nil {
			return err
		}
		if s.ListenPort != 0 {
			break
		}
		if time.Since(begin) > listenTimeout {
			return fmt.Errorf("%s: the daemon has no UDP socket after %v", p.name, listenTimeout)
		}
	}
	err = configure(p.update)
	p.update.Wipe()
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("%s: ListenPort %d: address already in use", p.name, *p.update.ListenPort)
	}
	if err != nil {
		return fmt.Errorf("%s: configuration: %w", p.name, err)
	}
	warnings, err := link.Apply(p.net)
	for _, w := range warnings {
		warn(w)
	}
	return err
}

// runConfig is `wgd run`. What it makes ends with it.
func runConfig(arg string) error {
	p, err := load(arg)
	if err != nil {
		return err
	}
	return runDaemon(p.name, p.mtu, func(d *device.Device) error {
		return p.apply(d.Configure, func() (*conf.State, error) { return d.State(), nil })
	}, func() error { return nil })
}

// up leaves the interface to a daemon, or leaves nothing behind.
func up(arg string) error {
	p, err := load(arg)
	if err != nil {
		return err
	}
	// A signal waits for the step in hand, which is short, and is then an error.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if err := daemonize(p.name, p.mtu); err != nil {
		return err
	}
	c, err := uapi.Dial(p.name)
	if err == nil {
		err = p.apply(c.Set, c.Get)
		c.Close()
	}
	select {
	case s := <-signals:
		err = errors.Join(err, fmt.Errorf("%s: %v", p.name, s))
	default:
	}
	if err != nil {
		if e := remove(p.name); e != nil {
			warn(e)
		}
	}
	return err
}

func down(arg string) error {
	_, name, err := confPath(arg)
	if err != nil {
		return err
	}
	return remove(name)
}

// remove ends the daemon that serves a name, by removing its socket, and waits until
// it has gone. Its interface goes with it, whatever that is called by now; another
// one of this name is not ours to delete.
func remove(name string) error {
	path := uapi.SocketPath(name)
	conn, err := net.DialTimeout("unix", path, downTimeout)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s: no daemon serves this interface", name)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// The connection ends with the daemon.
	conn.SetReadDeadline(time.Now().Add(downTimeout))
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s: the daemon has not ended after %v", name, downTimeout)
	}
	return nil
}
