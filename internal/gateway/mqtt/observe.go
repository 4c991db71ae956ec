package mqtt

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// ObserveOptions configure Observe.
type ObserveOptions struct {
	URL            string // as in ClientOptions
	ID             string // client id; the broker stores no session
	User, Password string
	TLS            *tls.Config
	Filter         string // topics to subscribe to, such as plant/#
}

// Observe calls take for each message of a broker until ctx ends (nil). The first connection must
// succeed; a later connection is retried. Retained messages are left out: they are older than the
// subscription. The calls are in the order of the messages, and by one goroutine.
func Observe(ctx context.Context, o ObserveOptions, take func(topic string, payload []byte, at time.Time)) error {
	if _, err := brokerURL(o.URL); err != nil {
		return err
	}
	subscribed := make(chan error, 1)
	opts := paho.NewClientOptions().AddBroker(o.URL).SetClientID(o.ID).SetUsername(o.User).SetPassword(o.Password).
		SetProtocolVersion(4).SetCleanSession(true).SetOrderMatters(true).SetConnectTimeout(connectWait).SetPingTimeout(pingWait).
		SetAutoReconnect(true).SetMaxReconnectInterval(retryEvery).
		SetOnConnectHandler(func(c paho.Client) {
			t := c.Subscribe(o.Filter, 0, func(_ paho.Client, m paho.Message) {
				if !m.Retained() && ctx.Err() == nil {
					take(m.Topic(), m.Payload(), time.Now())
				}
			})
			go func() {
				t.Wait()
				err := t.Error()
				if s, ok := t.(*paho.SubscribeToken); ok && err == nil && s.Result()[o.Filter] > 2 {
					err = fmt.Errorf("gateway: the broker refuses the subscription to %s", o.Filter)
				}
				select {
				case subscribed <- err:
				default:
				}
			}()
		})
	if o.TLS != nil {
		opts.SetTLSConfig(o.TLS)
	}
	client := paho.NewClient(opts)
	defer client.Disconnect(quiesce)
	t := client.Connect()
	select {
	case <-t.Done():
	case <-ctx.Done():
		return nil
	}
	if t.Error() != nil {
		return fmt.Errorf("gateway: broker %s: %w", urls.Redact(o.URL), t.Error())
	}
	select {
	case err := <-subscribed:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return nil
	}
	<-ctx.Done()
	return nil
}
