// Package wgtool is wg(8): it shows and sets the configuration of interfaces whose
// daemons listen on UAPI sockets.
package wgtool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"wgd/conf"
	"wgd/uapi"
)

// Commands are what Run knows.
const Commands = `  show [IF|all [FIELD]]      the state of interfaces, for people or for scripts
  show interfaces            their names
  showconf IF                the configuration, as a file
  set IF SETTING...          change the interface or its peers
  setconf IF FILE            make the configuration that of a file
  addconf IF FILE            add what stands in a file
  syncconf IF FILE           like setconf, but what stays the same is not touched
`

// A Usage is the error of arguments that do not fit: how they should be.
type Usage string

func (u Usage) Error() string { return string(u) }

// A Tool is one call of wg.
type Tool struct {
	Stdout, Stderr io.Writer
	Warn           func(string) // tells the user, in one line
}

// Run runs a command, args[0]. Known is false if there is no such command.
func (t *Tool) Run(args []string) (known bool, err error) {
	command, args := args[0], args[1:]
	switch command {
	case "show":
		err = t.show(args)
	case "showconf":
		err = t.showConf(args)
	case "set":
		err = t.set(args)
	case "setconf":
		err = t.setConf(args)
	case "addconf":
		err = t.addConf(args)
	case "syncconf":
		err = t.syncConf(args)
	default:
		return false, nil
	}
	return true, err
}

// output buffers what f prints.
func (t *Tool) output(f func(w *bufio.Writer) error) error {
	w := bufio.NewWriter(t.Stdout)
	return errors.Join(f(w), w.Flush())
}

// dial reaches the daemon of an interface.
func dial(ifname string) (*uapi.Client, error) {
	c, err := uapi.Dial(ifname)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%s: no daemon serves this interface", ifname)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", ifname, err)
	}
	return c, nil
}

func state(ifname string) (*conf.State, error) {
	c, err := dial(ifname)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s, err := c.Get()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ifname, err)
	}
	return s, nil
}

// apply hands the daemon an update, and wipes it.
func apply(ifname string, u *conf.Update) error {
	defer u.Wipe()
	for i := range u.Peers {
		if e := u.Peers[i].Endpoint; e != nil {
			if err := nameZone(e); err != nil {
				return err
			}
		}
	}
	c, err := dial(ifname)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Set(u); err != nil {
		return fmt.Errorf("%s: %w", ifname, err)
	}
	return nil
}

// nameZone makes the zone of an endpoint the name of an interface that there is.
func nameZone(e *netip.AddrPort) error {
	zone := e.Addr().Zone()
	if zone == "" {
		return nil
	}
	name := zone
	if index, err := strconv.ParseUint(zone, 10, 32); err == nil {
		name = interfaceName(uint32(index))
	} else if !hasInterface(zone) {
		name = ""
	}
	if name == "" {
		return fmt.Errorf("endpoint %v: no interface %s", e, zone)
	}
	*e = netip.AddrPortFrom(e.Addr().WithZone(name), e.Port())
	return nil
}

func hasInterface(name string) bool {
	request, err := unix.NewIfreq(name)
	return err == nil && ask(unix.SIOCGIFINDEX, request)
}

// interfaceName is "" if there is none.
func interfaceName(index uint32) string {
	request, err := unix.NewIfreq("")
	if err != nil {
		return ""
	}
	request.SetUint32(index)
	if !ask(unix.SIOCGIFNAME, request) {
		return ""
	}
	return request.Name()
}

func ask(request uint, about *unix.Ifreq) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.IoctlIfreq(fd, request, about) == nil
}

// isTerminal tells whether stdout is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
