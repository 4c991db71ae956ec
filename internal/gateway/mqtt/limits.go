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
	maxClientIDBytes = 256
	maxTopicBytes    = 1024    // of a topic or a filter: a key and the other levels
	maxWillBytes     = 4 << 10 // of the death of a Sparkplug B node, which contains a number
	maxFilters       = 16      // of a Sparkplug B node, for its commands
	maxCommands      = 64      // queued for a device
)

// brokerCapabilities are the broker's features for devices, which only send. Everything that a
// device can make the broker store has a limit.
func brokerCapabilities(maxMessage int) *mochi.Capabilities {
	caps := mochi.NewDefaultServerCapabilities()
	caps.MaximumPacketSize = uint32(maxMessage)
	caps.ReceiveMaximum = outbox.Window
	caps.MaximumInflight = maxCommands
	caps.MaximumClientWritesPending = maxCommands
	caps.MaximumSessionExpiryInterval = uint32(keepSession / time.Second)
	caps.TopicAliasMaximum = 0
	caps.SharedSubAvailable = 0 // retained messages are refused, but a retained will is accepted: see completeConnack
	return caps
}

// OnConnect refuses a CONNECT with too much data to store. It is called before the login.
func (h *hook) OnConnect(cl *mochi.Client, pk packets.Packet) error {
	var code packets.Code
	var reason string
	switch c := &pk.Connect; {
	case len(c.ClientIdentifier) > maxClientIDBytes:
		code, reason = packets.ErrClientIdentifierNotValid, fmt.Sprintf("the client id %q has %d bytes, want at most %d", names.Cut(c.ClientIdentifier, 40), len(c.ClientIdentifier), maxClientIDBytes)
	case c.WillFlag && (len(c.WillPayload) > maxWillBytes || len(c.WillTopic) > maxTopicBytes):
		code, reason = packets.ErrQuotaExceeded, fmt.Sprintf("the will has %d bytes under a topic of %d, want at most %d and %d", len(c.WillPayload), len(c.WillTopic), maxWillBytes, maxTopicBytes)
	default:
		return nil
	}
	h.gateway.Refuse(gateway.MQTT, fmt.Errorf("client %q: %s", names.Cut(pk.Connect.ClientIdentifier, 40), reason))
	if err := h.server.SendConnack(cl, code, false, nil); err != nil {
		return err
	}
	return code
}

// OnSessionEstablish is called after the login and before the library looks up the device's
// session. It removes the unused parts of the CONNECT, which the library would store. A will is
// only for the death of a Sparkplug B node, and is handled at once: the library would publish
// other wills to subscribers.
func (h *hook) OnSessionEstablish(cl *mochi.Client, _ packets.Packet) {
	h.mu.Lock()
	h.connecting[cl.ID] = cl
	h.mu.Unlock()
	if c, ok := cl.Net.Conn.(*timedConn); ok {
		c.version5.Store(cl.Properties.ProtocolVersion >= 5)
		c.loggedIn.Store(true)
	}
	p := &cl.Properties
	p.Username, p.Props.User, p.Props.AuthenticationData = nil, nil, nil
	if h.options.Sparkplug == nil || !sparkplug.IsDeath(p.Will.TopicName) {
		p.Will = mochi.Will{}
	}
	p.Will.Retain, p.Will.WillDelayInterval, p.Will.User = false, 0, nil
}

// completeConnack announces the unsupported features in a CONNACK, and reports the refusal of a
// device. MQTT 3.1.1 has its own return codes, up to 5.
func (h *hook) completeConnack(cl *mochi.Client, pk packets.Packet) packets.Packet {
	pk.Properties.MaximumPacketSize = uint32(h.options.MaxMessage)
	pk.Properties.RetainAvailable, pk.Properties.RetainAvailableFlag = 0, true
	switch code := pk.ReasonCode; code {
	case packets.CodeSuccess.Code:
		return pk
	case packets.ErrBadUsernameOrPassword.Code, packets.Err3NotAuthorized.Code, packets.ErrQuotaExceeded.Code, packets.ErrClientIdentifierNotValid.Code, packets.Err3ClientIdentifierNotValid.Code: // already reported
	default:
		h.gateway.Refuse(gateway.MQTT, fmt.Errorf("client %q cannot connect: %s (code %d)", names.Cut(cl.ID, 40), pk.Properties.ReasonString, code))
	}
	switch {
	case cl.Properties.ProtocolVersion >= 5 || pk.ReasonCode <= packets.Err3NotAuthorized.Code:
	case pk.ReasonCode == packets.ErrUnspecifiedError.Code: // a persistent session without a client id
		pk.ReasonCode = packets.Err3ClientIdentifierNotValid.Code
	default:
		pk.ReasonCode = packets.Err3ServerUnavailable.Code
	}
	return pk
}

// OnSubscribe makes filters beyond the limits invalid.
func (h *hook) OnSubscribe(cl *mochi.Client, pk packets.Packet) packets.Packet {
	room := maxFilters - cl.State.Subscriptions.Len()
	for i := range pk.Filters {
		f := &pk.Filters[i]
		if _, found := cl.State.Subscriptions.Get(f.Filter); found {
			continue
		}
		if room--; room < 0 || len(f.Filter) > maxTopicBytes {
			f.Filter = "" // the library answers with the code for an invalid filter
		}
	}
	return pk
}

// OnClientExpired ends the subscriptions of an expired session.
func (h *hook) OnClientExpired(cl *mochi.Client) { h.server.UnsubscribeClient(cl) }

// checkTopic refuses a topic that is too long for any key.
func checkTopic(topic string) error {
	if len(topic) > maxTopicBytes {
		return &gateway.Refused{Why: fmt.Sprintf("topic %q has %d bytes, want at most %d", names.Cut(strings.ToValidUTF8(topic, "?"), 80), len(topic), maxTopicBytes)}
	}
	return nil
}
