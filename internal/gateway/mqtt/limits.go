package mqtt

import (
	"fmt"
	"strings"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/gateway/sparkplug"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

const (
	clientIDBytes = 256
	topicBytes    = 1024    // of a topic or a filter: a key, and the levels that are not part of it
	willBytes     = 4 << 10 // of a death of Sparkplug B, which has a number
	filters       = 16      // of a device of Sparkplug B, which wants its own commands
	commands      = 64      // that wait for a device
)

// capabilities are what the broker does for devices, which only send. Nothing of what
// they may ask a broker to keep for them is without a limit.
func capabilities(maxMessage int) *mochi.Capabilities {
	caps := mochi.NewDefaultServerCapabilities()
	caps.MaximumPacketSize = uint32(maxMessage)
	caps.ReceiveMaximum = outbox.Window
	caps.MaximumInflight = commands
	caps.MaximumClientWritesPending = commands
	caps.MaximumSessionExpiryInterval = uint32(keepSession / time.Second)
	caps.TopicAliasMaximum = 0
	caps.SharedSubAvailable = 0 // messages are not retained, but a retained will is accepted: connack
	return caps
}

// OnConnect refuses what a device may not have the broker keep. It is before the login.
func (h *hook) OnConnect(cl *mochi.Client, pk packets.Packet) error {
	var code packets.Code
	var why string
	switch c := &pk.Connect; {
	case len(c.ClientIdentifier) > clientIDBytes:
		code, why = packets.ErrClientIdentifierNotValid, fmt.Sprintf("the client id %q has %d bytes, want at most %d", names.Cut(c.ClientIdentifier, 40), len(c.ClientIdentifier), clientIDBytes)
	case c.WillFlag && (len(c.WillPayload) > willBytes || len(c.WillTopic) > topicBytes):
		code, why = packets.ErrQuotaExceeded, fmt.Sprintf("the will has %d bytes under a topic of %d, want at most %d and %d", len(c.WillPayload), len(c.WillTopic), willBytes, topicBytes)
	default:
		return nil
	}
	h.g.Refuse(gateway.MQTT, fmt.Errorf("client %q: %s", names.Cut(pk.Connect.ClientIdentifier, 40), why))
	if err := h.server.SendConnack(cl, code, false, nil); err != nil {
		return err
	}
	return code
}

// OnSessionEstablish is after the login and before the broker looks for a session of the
// device. It leaves out what the broker would keep of the CONNECT for no use. A will is
// for a death of Sparkplug B, and is taken at once: the broker would publish any other
// one to subscribers.
func (h *hook) OnSessionEstablish(cl *mochi.Client, _ packets.Packet) {
	h.mu.Lock()
	h.coming[cl.ID] = cl
	h.mu.Unlock()
	if c, ok := cl.Net.Conn.(*timedConn); ok {
		c.version5.Store(cl.Properties.ProtocolVersion >= 5)
		c.loggedIn.Store(true)
	}
	p := &cl.Properties
	p.Username, p.Props.User, p.Props.AuthenticationData = nil, nil, nil
	if h.o.Sparkplug == nil || !sparkplug.IsDeath(p.Will.TopicName) {
		p.Will = mochi.Will{}
	}
	p.Will.Retain, p.Will.WillDelayInterval, p.Will.User = false, 0, nil
}

// connack announces in a CONNACK what the broker does not take, and reports one that
// refuses a device. MQTT 3.1.1 has return codes of its own, up to 5.
func (h *hook) connack(cl *mochi.Client, pk packets.Packet) packets.Packet {
	pk.Properties.MaximumPacketSize = uint32(h.o.MaxMessage)
	pk.Properties.RetainAvailable, pk.Properties.RetainAvailableFlag = 0, true
	switch code := pk.ReasonCode; code {
	case packets.CodeSuccess.Code:
		return pk
	case packets.ErrBadUsernameOrPassword.Code, packets.Err3NotAuthorized.Code, packets.ErrQuotaExceeded.Code, packets.ErrClientIdentifierNotValid.Code, packets.Err3ClientIdentifierNotValid.Code: // reported before
	default:
		h.g.Refuse(gateway.MQTT, fmt.Errorf("client %q cannot connect: %s (code %d)", names.Cut(cl.ID, 40), pk.Properties.ReasonString, code))
	}
	switch {
	case cl.Properties.ProtocolVersion >= 5 || pk.ReasonCode <= packets.Err3NotAuthorized.Code:
	case pk.ReasonCode == packets.ErrUnspecifiedError.Code: // no client id, and a session
		pk.ReasonCode = packets.Err3ClientIdentifierNotValid.Code
	default:
		pk.ReasonCode = packets.Err3ServerUnavailable.Code
	}
	return pk
}

// OnSubscribe makes filters invalid that are more than a device may have.
func (h *hook) OnSubscribe(cl *mochi.Client, pk packets.Packet) packets.Packet {
	room := filters - cl.State.Subscriptions.Len()
	for i := range pk.Filters {
		f := &pk.Filters[i]
		if _, has := cl.State.Subscriptions.Get(f.Filter); has {
			continue
		}
		if room--; room < 0 || len(f.Filter) > topicBytes {
			f.Filter = "" // the broker answers that it is invalid
		}
	}
	return pk
}

// OnClientExpired ends the subscriptions of a session that the broker forgets.
func (h *hook) OnClientExpired(cl *mochi.Client) { h.server.UnsubscribeClient(cl) }

// checkTopic refuses a topic that no key can be of.
func checkTopic(topic string) error {
	if len(topic) > topicBytes {
		return &gateway.Refused{Why: fmt.Sprintf("topic %q has %d bytes, want at most %d", names.Cut(strings.ToValidUTF8(topic, "?"), 80), len(topic), topicBytes)}
	}
	return nil
}
