package modbus

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ofServer matches a register with the address of a server. Package internal/config has the
// same pattern.
var ofServer = regexp.MustCompile(`^([^ ,/]+:[0-9]{1,5})/(.+)$`)

// splitOptions splits options into the options of each server, with the server's registers. A
// register without an address belongs to the first server.
func splitOptions(o Options) ([]Options, error) {
	var servers []Options
	findServer := func(addr string) int {
		return slices.IndexFunc(servers, func(s Options) bool { return s.Addr == addr })
	}
	for addr := range strings.SplitSeq(o.Addr, ",") {
		server := o
		server.Addr, server.Registers = strings.TrimSpace(addr), map[string]string{}
		if server.Addr == "" {
			return nil, fmt.Errorf("gateway: gateway.modbus.servers is %q: want host:port, such as plc:502, or several, separated by commas", o.Addr)
		}
		if findServer(server.Addr) >= 0 {
			return nil, fmt.Errorf("gateway: gateway.modbus.servers names %s twice: want each server once", server.Addr)
		}
		servers = append(servers, server)
	}
	names := slices.Sorted(maps.Keys(o.Registers))
	keys, places, err := setting.Places(names, o.Channels)
	if err != nil {
		return nil, err
	}
	serverOf := make([]int, len(keys)) // server of each stream, from 1
	for i, name := range names {
		text, index := o.Registers[name], 0
		if m := ofServer.FindStringSubmatch(text); m != nil {
			if index = findServer(m[1]); index < 0 {
				return nil, fmt.Errorf("gateway: %s: %q is %q: gateway.modbus.servers (%s) does not name the server %s", setting.Name, name, text, o.Addr, m[1])
			}
			text = m[2]
		}
		servers[index].Registers[name] = text
		switch s := &serverOf[places[i].Stream]; *s {
		case 0, index + 1:
			*s = index + 1
		default:
			return nil, fmt.Errorf("gateway: %s: stream %q has channels of %s and of %s, but the servers are polled independently: want all channels of a stream from one server", setting.Name, keys[places[i].Stream], servers[*s-1].Addr, servers[index].Addr)
		}
	}
	for _, s := range servers {
		if len(s.Registers) == 0 {
			return nil, fmt.Errorf("gateway: gateway.modbus.servers names %[1]s, but no register of %[2]s: begin the registers of this server with %[1]s/, or remove the server", s.Addr, setting.Name)
		}
	}
	return servers, nil
}

// Check reports an error in the registers of the servers.
func Check(addrs string, registers map[string]string, channels []string) error {
	servers, err := splitOptions(Options{Addr: addrs, Registers: registers, Channels: channels})
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
