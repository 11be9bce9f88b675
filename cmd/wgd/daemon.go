package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/crypto/chacha20poly1305"
	"wgd/device"
	"wgd/internal/threads"
	"wgd/netcfg"
	"wgd/tun"
	"wgd/uapi"
)

// exitTimeout bounds the end of the daemon: what hangs then is left to the
// kernel, which takes back interface, sockets and memory.
const exitTimeout = 800 * time.Millisecond

// The environment by which descriptors are handed to us; all but the last are
// those of wireguard-go.
const (
	envTun        = "WG_TUN_FD"
	envUAPI       = "WG_UAPI_FD"
	envForeground = "WG_PROCESS_FOREGROUND"
	envReady      = "WGD_READY_FD" // see daemonize
)

// The environment that the keys Offload and Memory of a file stand for.
const (
	envOffload = "WGD_OFFLOAD" // what the packet path may try, see device.ParseOffload
	envMemory  = "WGD_MEMORY"  // that the machine has, see conf.ParseMemory and device.Budget
)

// chooseOptions reads from the environment what a Device works with.
func chooseOptions() (o device.Options, err error) {
	o.Offload = device.OffloadAll
	if list, ok := os.LookupEnv(envOffload); ok {
		if o.Offload, err = device.ParseOffload(list); err != nil {
			return o, fmt.Errorf("%s: %w", envOffload, err)
		}
	}
	memory := int64(0) // what there is
	if s := os.Getenv(envMemory); s != "" {
		if memory, err = conf.ParseMemory(s); err != nil {
			return o, fmt.Errorf("%s=%s: wrong value (%w)", envMemory, s, err)
		}
	}
	o.Budget = device.BudgetFor(memory)
	return o, nil
}

// envAEAD names the implementation of ChaCha20-Poly1305 to use.
const envAEAD = "WGD_AEAD"

// chooseAEAD takes the implementation that the environment asks for, or the best,
// and returns the names of those refused for wrong answers.
func chooseAEAD() (refused []string, err error) {
	name := os.Getenv(envAEAD)
	if name == "" {
		return chacha20poly1305.Choose(), nil
	}
	if err := useAEAD(name); err != nil {
		return nil, err
	}
	if chacha20poly1305.SelfTest() != nil {
		return nil, fmt.Errorf("%s=%s: it gives wrong answers", envAEAD, name)
	}
	return nil, nil
}

func logAEAD(log *device.Logger, refused []string) {
	name, why := chacha20poly1305.Implementation()
	if len(refused) != 0 {
		log.Errorf("ChaCha20-Poly1305: wrong answers from %s, using %s", strings.Join(refused, ", "), name)
	}
	log.Verbosef("ChaCha20-Poly1305: %s (%s)", name, why)
}

func useAEAD(name string) error {
	if err := chacha20poly1305.Use(name); err != nil {
		return fmt.Errorf("%s=%w: %s", envAEAD, err, strings.Join(chacha20poly1305.Implementations(), ", "))
	}
	return nil
}

// inheritedFD takes the number of a descriptor out of the environment; -1 if
// there is none.
func inheritedFD(env string) (int, error) {
	s := os.Getenv(env)
	if s == "" {
		return -1, nil
	}
	os.Unsetenv(env)
	fd, err := strconv.ParseUint(s, 10, 31)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	if err != nil {
		return -1, fmt.Errorf("%s=%q: not a descriptor", env, s)
	}
	return int(fd), nil
}

// logLevel reads LOG_LEVEL as wireguard-go does.
func logLevel() device.Level {
	switch os.Getenv("LOG_LEVEL") {
	case "verbose", "debug":
		return device.LogVerbose
	case "silent":
		return device.LogSilent
	}
	return device.LogError
}

// runInterface is `wgd IF` and `wgd -f IF`.
func runInterface(name string, foreground bool) error {
	readyFD, err := inheritedFD(envReady)
	if err != nil {
		return err
	}
	if !foreground {
		return daemonize(name, tun.DefaultMTU)
	}
	if readyFD < 0 {
		return runDaemon(name, tun.DefaultMTU, nil, func() error { return nil })
	}
	// We are the child of daemonize, which prints what we tell it.
	parent := os.NewFile(uintptr(readyFD), "ready")
	err = runDaemon(name, 0, nil, func() error {
		defer parent.Close()
		_, err := io.WriteString(parent, readyWord)
		return err
	})
	if err != nil {
		io.WriteString(parent, err.Error()) // no reader any more if we had been ready
	}
	return err
}

// runDaemon makes an interface, or takes over one that is handed to us, and
// serves it until its end. The MTU is not touched if mtu is 0. configure, if not nil,
// sets it up before ready is called.
func runDaemon(name string, mtu int, configure func(*device.Device) error, ready func() error) error {
	// From here on there is something to clean up. A parent or log reader that
	// has gone is no reason to end.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	if !signal.Ignored(unix.SIGHUP) {
		signal.Notify(signals, unix.SIGHUP)
	}
	signal.Ignore(unix.SIGPIPE)
	threads.Settle()

	o, err := chooseOptions()
	if err != nil {
		return err
	}
	refused, err := chooseAEAD()
	if err != nil {
		return err
	}
	k, l, err := open(name, mtu, o.Offload.Tun())
	if err != nil {
		return err
	}
	log := device.NewLogger(os.Stderr, k.Name(), logLevel())
	logAEAD(log, refused)
	if err := k.LimitQueue(o.Budget.Queue); err != nil {
		log.Verbosef("queue of the interface: %v", err)
	}
	o.Tun, o.Log = k, log
	d, err := device.New(o)
	if err != nil {
		l.Close()
		k.Close()
		return err
	}
	force := func(code int) {
		time.AfterFunc(exitTimeout, func() {
			l.Close()
			os.Exit(code)
		})
	}
	end := func(err error) error {
		code := 0
		if err != nil {
			code = 1
		}
		force(code)
		d.Close()
		l.Close()
		return err
	}
	why := make(chan string, 3)
	go func() {
		s := <-signals
		force(0) // the rest may be busy
		why <- s.String()
	}()
	if configure != nil {
		if err := configure(d); err != nil {
			return end(err)
		}
	}
	go func() {
		server := uapi.Server{Backend: d, MaxOperation: o.Budget.Operation, Log: func(err error) { log.Verbosef("configuration: %v", err) }}
		if err := server.Serve(untilExit{l}); err != nil {
			why <- err.Error()
		}
	}()
	go func() {
		if err := l.WaitRemoved(); err != nil {
			why <- err.Error()
		}
	}()
	if err := ready(); err != nil {
		return end(err)
	}
	log.Verbosef("wgd %s started", version)
	select {
	case w := <-why:
		log.Verbosef("%s, ending", w)
	case <-d.Wait():
		log.Verbosef("interface removed, ending")
	}
	return end(nil)
}

// untilExit is a listener that does not tell when it is closed. So the server
// keeps its connections open, and `wgd down` sees the end of the process by the end of
// its own.
type untilExit struct{ net.Listener }

func (l untilExit) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		select {}
	}
	return c, err
}

// open makes the interface and its UAPI socket, or takes them from the
// environment.
func open(name string, mtu int, offload tun.Offload) (*tun.Kernel, *uapi.Listener, error) {
	tunFD, err := inheritedFD(envTun)
	if err != nil {
		return nil, nil, err
	}
	uapiFD, err := inheritedFD(envUAPI)
	if err != nil {
		return nil, nil, err
	}
	var k *tun.Kernel
	if tunFD < 0 {
		k, err = tun.Create(name, tun.Options{MTU: mtu, Offload: offload})
	} else if k, err = tun.FromFD(tunFD, offload); err == nil && mtu != 0 && mtu != k.MTU() {
		if err = setMTU(k.Name(), mtu); err != nil {
			k.Close()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var l *uapi.Listener
	if uapiFD < 0 {
		l, err = uapi.Listen(k.Name())
	} else {
		l, err = uapi.FromFD(uapiFD)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("%s: name in use: %w", k.Name(), err)
	}
	if err != nil {
		k.Close()
		return nil, nil, err
	}
	return k, l, nil
}

func setMTU(name string, mtu int) error {
	link, err := netcfg.Open(name)
	if err != nil {
		return err
	}
	defer link.Close()
	return link.SetMTU(mtu)
}

var _ uapi.Backend = (*device.Device)(nil)
