package live

import (
	"errors"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/pipeline/gateway"
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
