package configcmd

import (
	"errors"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/notify"
)

// outputError is what is wrong with where alarms are sent. The stage does not send them, so
// loading a configuration does not find it.
type outputError struct {
	key string
	err error
}

func (e *outputError) Error() string { return "config: key " + e.key + ": " + e.err.Error() }

func (e *outputError) Unwrap() error { return e.err }

// CheckOutputs joins what is wrong with where alarms are sent. It reads the files of tls,
// and connects to nothing.
func CheckOutputs(c config.Alarms) error {
	var all []error
	add := func(key string, err error) {
		if err != nil {
			all = append(all, &outputError{"alarms." + key, err})
		}
	}
	_, err := certs.ClientTLS(c.TLS.CA, c.TLS.Cert, c.TLS.Key)
	add("tls", err)
	if c.Webhook != "" {
		add("webhook", notify.CheckWebhook(c.Webhook))
	}
	if c.MQTT != "" {
		add("mqtt", notify.CheckBroker(c.MQTT))
		add("mqtt_prefix", notify.CheckPrefix(c.MQTTPrefix))
	}
	if c.Alertmanager != "" {
		add("alertmanager_labels", notify.CheckLabels(c.AlertmanagerLabels.Map()))
		for address := range strings.SplitSeq(c.Alertmanager, ",") {
			add("alertmanager", notify.CheckAlertmanager(address))
		}
	}
	return errors.Join(all...)
}
