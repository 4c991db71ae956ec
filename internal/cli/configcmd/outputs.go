package configcmd

import (
	"errors"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/notify"
)

// outputError is an error in the configuration of alarm outputs. Loading a configuration does
// not detect such errors, because the stage does not send alarms.
type outputError struct {
	key string
	err error
}

func (e *outputError) Error() string { return "key " + e.key + ": " + e.err.Error() }

func (e *outputError) Unwrap() error { return e.err }

// CheckOutputs joins the errors in the configuration of alarm outputs. It reads the files of
// tls, and makes no connections.
func CheckOutputs(c config.Alarms) error {
	var problems []error
	addProblem := func(key string, err error) {
		if err != nil {
			problems = append(problems, &outputError{"alarms." + key, err})
		}
	}
	_, err := certs.ClientTLS(c.TLS.CA, c.TLS.Cert, c.TLS.Key)
	addProblem("tls", err)
	if c.Webhook != "" {
		addProblem("webhook", notify.CheckWebhook(c.Webhook))
	}
	if c.MQTT != "" {
		addProblem("mqtt", notify.CheckBroker(c.MQTT))
		addProblem("mqtt_prefix", notify.CheckPrefix(c.MQTTPrefix))
	}
	if c.Alertmanager != "" {
		addProblem("alertmanager_labels", notify.CheckLabels(c.AlertmanagerLabels.Map()))
		for address := range strings.SplitSeq(c.Alertmanager, ",") {
			addProblem("alertmanager", notify.CheckAlertmanager(address))
		}
	}
	return errors.Join(problems...)
}
