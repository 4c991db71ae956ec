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

// OPCUAOptions returns the options of a client of OPC UA for the channels of a model; without
// channels, the options to browse.
func OPCUAOptions(c config.Gateway, channels []string, log *slog.Logger) (opcua.Options, error) {
	o := c.OPCUA
	options := opcua.Options{
		URL: o.URL, Nodes: o.Nodes.Map(), Channels: channels, Policy: o.Security, Login: o.Login, Cert: o.Cert, Key: o.Key, Trust: o.Trust,
		User: o.User, Password: o.Password, Sampling: o.Sampling, Publishing: o.Publishing, Queue: o.Queue, Period: c.Period, Log: log,
	}
	if len(channels) == 0 {
		return options, nil
	}
	named, err := formats.NewNamed(formats.Input{}, codec.Schema{Channels: channels, NonFinite: codec.Hold}) // values have no names here: scales of input.channels do not apply
	options.Sampler = named
	return options, err
}

// followOPCUA subscribes to a server.
func followOPCUA(g *gateway.Gateway, c config.Gateway, s codec.Schema, log *slog.Logger) (*opcua.Client, error) {
	o, err := OPCUAOptions(c, s.Channels, log)
	if err != nil {
		return nil, err
	}
	return opcua.Follow(g, o)
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
