package live

import (
	"errors"
	"log/slog"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/pipeline/gateway"
	"github.com/eusn-stream/eusn-stream/pipeline/gateway/modbus"
	"github.com/eusn-stream/eusn-stream/pipeline/gateway/opcua"
	"github.com/eusn-stream/eusn-stream/pipeline/gateway/sparkplug"
)

// checkFieldbus says what is wrong with a configuration of field buses.
func checkFieldbus(c config.Fieldbus, g config.Gateway) error {
	if c.Sparkplug == "" {
		return nil
	}
	if g.MQTT == "" && g.Broker == "" {
		return errors.New("gateway: fieldbus.sparkplug comes over MQTT: give --mqtt-listen or --broker, too")
	}
	return sparkplug.CheckGroups(c.Sparkplug)
}

// followOPCUA subscribes to a server.
func followOPCUA(g *gateway.Gateway, c config.Fieldbus, s codec.Schema, log *slog.Logger) (*opcua.Client, error) {
	named, err := formats.NewNamed(formats.Input{}, s) // values have no names here: scales of input.channels are for others
	if err != nil {
		return nil, err
	}
	return opcua.Follow(g, opcua.Options{
		URL: c.OPCUA, Nodes: c.OPCUANodes.Map(), Channels: s.Channels, Sampler: named, Policy: c.OPCUASecurity, Login: c.OPCUALogin, Cert: c.OPCUACert, Key: c.OPCUAKey, Trust: c.OPCUATrust,
		User: c.OPCUAUser, Password: c.OPCUAPassword, Sampling: c.OPCUASampling, Publishing: c.OPCUAPublishing, Queue: c.OPCUAQueue, Period: c.Period, Log: log,
	})
}

// pollModbus polls servers until end.
func pollModbus(g *gateway.Gateway, c config.Fieldbus, s codec.Schema, log *slog.Logger) (end func(), err error) {
	return modbus.Follow(g, modbus.Options{
		Addr: c.Modbus, Unit: c.ModbusUnit, Registers: c.ModbusRegisters.Map(), Channels: s.Channels, Interval: c.ModbusInterval, Timeout: c.ModbusTimeout, Period: c.Period, Log: log,
	})
}

// newSparkplug is the host of Sparkplug B, nil where none is asked for.
func newSparkplug(g *gateway.Gateway, c config.Fieldbus, in formats.Input, s codec.Schema) (*sparkplug.Host, error) {
	if c.Sparkplug == "" {
		return nil, nil
	}
	named, err := formats.NewNamed(in, s)
	if err != nil {
		return nil, err
	}
	return sparkplug.New(g, sparkplug.Options{Groups: c.Sparkplug, Channels: named, Count: len(s.Channels), Period: c.Period, End: c.SparkplugEnd})
}
