package live

import (
	"errors"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"log/slog"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/modbus"
	"github.com/eusn-stream/eusn-stream/internal/gateway/opcua"
	"github.com/eusn-stream/eusn-stream/internal/gateway/sparkplug"
)

// checkFieldbus reports errors in a configuration of field buses.
func checkFieldbus(g config.Gateway) error {
	if g.Sparkplug.Groups == "" {
		return nil
	}
	if g.MQTT == "" && g.Broker == "" {
		return errors.New("gateway.sparkplug.groups comes over MQTT: give --mqtt-listen or --broker, too")
	}
	return sparkplug.CheckGroups(g.Sparkplug.Groups)
}

// followOPCUA subscribes to a server.
func followOPCUA(g *gateway.Gateway, c config.Gateway, s codec.Schema, log *slog.Logger) (*opcua.Client, error) {
	named, err := formats.NewNamed(formats.Input{}, s) // values have no names here: scales of input.channels do not apply
	if err != nil {
		return nil, err
	}
	o := c.OPCUA
	return opcua.Follow(g, opcua.Options{
		URL: o.URL, Nodes: o.Nodes.Map(), Channels: s.Channels, Sampler: named, Policy: o.Security, Login: o.Login, Cert: o.Cert, Key: o.Key, Trust: o.Trust,
		User: o.User, Password: o.Password, Sampling: o.Sampling, Publishing: o.Publishing, Queue: o.Queue, Period: c.Period, Log: log,
	})
}

// pollModbus polls servers until end.
func pollModbus(g *gateway.Gateway, c config.Gateway, s codec.Schema, log *slog.Logger) (end func(), err error) {
	m := c.Modbus
	return modbus.Follow(g, modbus.Options{
		Addr: m.Servers, Unit: m.Unit, Registers: m.Registers.Map(), Channels: s.Channels, Interval: m.Interval, Timeout: m.Timeout, Period: c.Period, Log: log,
	})
}

// newSparkplug returns the host of Sparkplug B, nil if not configured.
func newSparkplug(g *gateway.Gateway, c config.Gateway, in formats.Input, s codec.Schema) (*sparkplug.Host, error) {
	if c.Sparkplug.Groups == "" {
		return nil, nil
	}
	named, err := formats.NewNamed(in, s)
	if err != nil {
		return nil, err
	}
	return sparkplug.New(g, sparkplug.Options{Groups: c.Sparkplug.Groups, Channels: named, Count: len(s.Channels), Period: c.Period, End: c.Sparkplug.End})
}

// openFieldbus starts the inputs of field buses. end stops them, and is returned with
// an error, too.
func (o *gatewayInputs) openFieldbus(g *gateway.Gateway, log *slog.Logger) (end func(), err error) {
	end = func() {}
	if o.sparkplug, err = newSparkplug(g, o.c, o.in, o.schema); err != nil {
		return end, cli.Fail(cli.ExitConfig, err, "names of metrics in input.channels; see docs/fieldbus.md")
	}
	if o.c.OPCUA.URL != "" {
		client, err := followOPCUA(g, o.c, o.schema, log)
		if err != nil {
			return end, cli.Fail(cli.ExitConfig, err, "docs/fieldbus.md")
		}
		end = func() { client.Close() }
	}
	if o.c.Modbus.Servers != "" {
		endPolls, err := pollModbus(g, o.c, o.schema, log)
		if err != nil {
			return end, cli.Fail(cli.ExitConfig, err, "docs/fieldbus.md")
		}
		endClient := end
		end = func() { endPolls(); endClient() }
	}
	return end, nil
}
