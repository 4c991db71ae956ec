package modbus

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ofServer is a register that names its server. Package internal/config has the
// same pattern.
var ofServer = regexp.MustCompile(`^([^ ,/]+:[0-9]{1,5})/(.+)$`)

// divide makes options for each server of o, with the registers that are there. A
// register that names no server is of the first.
func divide(o Options) ([]Options, error) {
	var all []Options
	named := func(addr string) int {
		return slices.IndexFunc(all, func(s Options) bool { return s.Addr == addr })
	}
	for addr := range strings.SplitSeq(o.Addr, ",") {
		one := o
		one.Addr, one.Registers = strings.TrimSpace(addr), map[string]string{}
		if one.Addr == "" {
			return nil, fmt.Errorf("gateway: gateway.modbus.servers is %q: want host:port, such as plc:502, or several, separated by commas", o.Addr)
		}
		if named(one.Addr) >= 0 {
			return nil, fmt.Errorf("gateway: gateway.modbus.servers names %s twice: want each server once", one.Addr)
		}
		all = append(all, one)
	}
	names := slices.Sorted(maps.Keys(o.Registers))
	keys, places, err := setting.Places(names, o.Channels)
	if err != nil {
		return nil, err
	}
	where := make([]int, len(keys)) // server of each stream, from 1
	for i, name := range names {
		text, at := o.Registers[name], 0
		if m := ofServer.FindStringSubmatch(text); m != nil {
			if at = named(m[1]); at < 0 {
				return nil, fmt.Errorf("gateway: %s: %q is %q: gateway.modbus.servers (%s) does not name the server %s", setting.Name, name, text, o.Addr, m[1])
			}
			text = m[2]
		}
		all[at].Registers[name] = text
		switch s := &where[places[i].Stream]; *s {
		case 0, at + 1:
			*s = at + 1
		default:
			return nil, fmt.Errorf("gateway: %s: stream %q has channels of %s and of %s, which are polled apart: want all channels of a stream from one server", setting.Name, keys[places[i].Stream], all[*s-1].Addr, all[at].Addr)
		}
	}
	for _, s := range all {
		if len(s.Registers) == 0 {
			return nil, fmt.Errorf("gateway: gateway.modbus.servers names %[1]s, and no register of %[2]s is there: begin those of that server with %[1]s/, or leave it out", s.Addr, setting.Name)
		}
	}
	return all, nil
}

// Check says what is wrong with registers of such servers.
func Check(addrs string, all map[string]string, channels []string) error {
	servers, err := divide(Options{Addr: addrs, Registers: all, Channels: channels})
	if err != nil {
		return err
	}
	for _, s := range servers {
		if _, _, err := parseRegisters(s.Registers, channels, 0); err != nil {
			return err
		}
	}
	return nil
}
