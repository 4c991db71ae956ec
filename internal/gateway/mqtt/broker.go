package mqtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/storage"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/gateway/sparkplug"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

const (
	sessionPrefix = "mqtt:"     // prefix of the names of devices' sessions
	closeWait     = time.Second // wait for the last acknowledgements
	maxReason     = 500         // characters of a reason in an acknowledgement
)

// Broker is a broker that accepts messages and delivers only commands to edge nodes of
// Sparkplug B.
type Broker struct {
	server *mochi.Server
	addr   net.Addr
	stop   context.CancelFunc
}

// BrokerOptions configure a broker.
type BrokerOptions struct {
	Addr       string // address to listen on
	Access     gateway.Access
	Topics     *gateway.Topics
	Sparkplug  *sparkplug.Host // handles the topics of Sparkplug B; nil: no support
	MaxMessage int             // limit of a packet in bytes
	Log        *slog.Logger

	maxIdleSessions int // limit for tests; 0: the constant maxIdleSessions
}

// Listen starts a broker for g. Call Listen before g runs, because Listen reads the sessions
// that g remembers.
func Listen(g *gateway.Gateway, o BrokerOptions) (*Broker, error) {
	l, err := o.Access.Listen(o.Addr)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Broker{addr: l.Addr(), stop: stop}
	b.server = mochi.New(&mochi.Options{InlineClient: o.Sparkplug != nil, Capabilities: brokerCapabilities(o.MaxMessage), Logger: slog.New(quiet{o.Log.Handler()})})
	h := &hook{gateway: g, options: o, ctx: ctx, knownSessions: g.Sessions(), server: b.server, devices: map[*mochi.Client]*device{}, byID: map[string]*mochi.Client{}, connecting: map[string]*mochi.Client{}, used: map[string]bool{}}
	for _, s := range h.knownSessions {
		h.used[strings.TrimPrefix(s, sessionPrefix)] = true
	}
	places := listen.NewPlaces(max(1, largeBytes/max(1, o.MaxMessage)))
	if err := errors.Join(b.server.AddHook(h, nil), b.server.AddListener(listeners.NewNet("mqtt", timedListener{l, loginWait, writeWait, listen.DefaultPace, places, func(err error) { g.Refuse(gateway.MQTT, err) }, o.MaxMessage}))); err != nil {
		stop()
		l.Close()
		return nil, err
	}
	if err := b.server.Serve(); err != nil {
		stop()
		b.server.Close()
		return nil, err
	}
	go h.sweepSessions()
	return b, nil
}

// Addr returns the address of the listener.
func (b *Broker) Addr() net.Addr { return b.addr }

// Close ends all connections after the acknowledgements of the stored messages.
func (b *Broker) Close() {
	b.stop()
	time.Sleep(closeWait / 10)
	b.server.Close()
}

// quiet turns the broker library's log into debug lines: a broken connection of a device is not
// news.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && q.Handler.Enabled(ctx, l) || q.Handler.Enabled(ctx, slog.LevelDebug)
}

// WithAttrs and WithGroup return quiet handlers.
func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a)} }
func (q quiet) WithGroup(name string) slog.Handler   { return quiet{q.Handler.WithGroup(name)} }

// hook implements the callbacks of the broker library.
type hook struct {
	mochi.HookBase
	gateway       *gateway.Gateway
	options       BrokerOptions
	ctx           context.Context
	knownSessions []string // sessions of the previous run

	server *mochi.Server

	mu         sync.Mutex
	devices    map[*mochi.Client]*device
	byID       map[string]*mochi.Client
	connecting map[string]*mochi.Client // connections before their setup is complete, by client id
	used       map[string]bool          // client ids that have sent with QoS 1 or 2 in their session
}

func (h *hook) ID() string { return "gateway" }

func (h *hook) Provides(b byte) bool {
	return bytes.Contains([]byte{mochi.OnConnect, mochi.OnConnectAuthenticate, mochi.OnACLCheck, mochi.OnSessionEstablish, mochi.OnSubscribe, mochi.OnClientExpired, mochi.OnSessionEstablished, mochi.OnPacketRead, mochi.OnPublish, mochi.OnPacketEncode, mochi.OnDisconnect, mochi.OnWillSent, mochi.StoredClients}, []byte{b})
}

func (h *hook) OnConnectAuthenticate(_ *mochi.Client, pk packets.Packet) bool {
	ok := h.options.Access.Allows(string(pk.Connect.Username), string(pk.Connect.Password))
	if !ok {
		h.gateway.Refuse(gateway.MQTT, errors.New("a device has sent a wrong name or password: want gateway.user and gateway.password"))
	}
	return ok
}

// OnACLCheck lets devices send, and edge nodes of Sparkplug B subscribe to commands. The broker
// delivers nothing else.
func (h *hook) OnACLCheck(_ *mochi.Client, topic string, write bool) bool {
	return write || h.options.Sparkplug != nil && sparkplug.IsCommandFilter(topic)
}

// device is one connection of a device.
type device struct {
	acks     *ackQueue
	room     chan struct{} // one element per unacknowledged message
	ctx      context.Context
	cancel   context.CancelFunc
	handling sync.Mutex // held while the gateway handles a message with QoS 1 or 2
	used     bool       // the device has sent with QoS 1 or 2; guarded by handling
}

// OnSessionEstablished is called after the login and before the first message; OnDisconnect
// always follows. The device's previous connection may be waiting with a message that the
// device resends on the new connection. The old connection must release the message first;
// otherwise the gateway could store the message after its repetition.
func (h *hook) OnSessionEstablished(cl *mochi.Client, pk packets.Packet) {
	if before := h.replaceConnection(cl); before != nil {
		before.cancel()
		before.handling.Lock() // until the old connection has released its message
		defer before.handling.Unlock()
	}
	if cl.ID != "" && (pk.Connect.Clean || !h.hasUsed(cl.ID)) { // a new session
		h.gateway.Forget(h.ctx, sessionPrefix+cl.ID)
	}
}

// replaceConnection makes cl the connection of its device, and returns the previous connection.
func (h *hook) replaceConnection(cl *mochi.Client) *device {
	d := &device{acks: newAcks(cl.Stop), room: make(chan struct{}, outbox.Window)}
	d.ctx, d.cancel = context.WithCancel(h.ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connecting[cl.ID] == cl {
		delete(h.connecting, cl.ID)
	}
	before := h.devices[h.byID[cl.ID]]
	h.devices[cl], h.byID[cl.ID] = d, cl
	return before
}

// OnDisconnect is called after the last message. With expired the library deletes the session.
func (h *hook) OnDisconnect(cl *mochi.Client, err error, expired bool) {
	if errors.Is(err, packets.ErrPacketTooLarge) {
		h.gateway.Refuse(gateway.MQTT, fmt.Errorf("client %q has sent a packet of more than %d bytes, and its connection was closed: send fewer samples per message, or raise gateway.max_message", names.Cut(cl.ID, 40), h.options.MaxMessage))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.devices[cl]; d != nil {
		d.cancel()
		d.acks.close()
		delete(h.devices, cl)
	}
	if h.byID[cl.ID] == cl {
		delete(h.byID, cl.ID)
		if expired {
			delete(h.used, cl.ID)
		}
	}
}

// markUsed stores that a device has sent with QoS 1 or 2.
func (h *hook) markUsed(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used[id] = true
}

func (h *hook) findDevice(cl *mochi.Client) *device {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.devices[cl]
}

// OnPacketRead handles a PUBREL: the device has the PUBREC of a message and may reuse the
// packet id. If the gateway ends meanwhile, the connection ends without a PUBCOMP, and the
// device resends the PUBREL.
func (h *hook) OnPacketRead(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	if pk.FixedHeader.Type != packets.Pubrel {
		return pk, nil
	}
	if d := h.findDevice(cl); d == nil || h.gateway.Release(d.ctx, sessionPrefix+cl.ID, uint64(pk.PacketID)) != nil {
		return pk, packets.ErrRejectPacket
	}
	return pk, nil
}

// OnPublish gives a message to the gateway. Under backpressure OnPublish blocks the device's
// connection.
func (h *hook) OnPublish(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline { // a command from the gateway
		return pk, nil
	}
	d := h.findDevice(cl)
	if d == nil {
		return pk, packets.ErrRejectPacket
	}
	m := &gateway.Message{Input: gateway.MQTT, From: cl.Net.Remote, Payload: pk.Payload, Trace: traceOf(pk.Properties.User)}
	if pk.FixedHeader.Qos == 0 { // the device does not resend QoS 0
		h.handleMessage(h.ctx, m, pk.TopicName)
		return pk, packets.ErrRejectPacket
	}
	d.handling.Lock()
	defer d.handling.Unlock()
	select { // blocks a device with too many unacknowledged messages
	case d.room <- struct{}{}:
	case <-d.ctx.Done():
	}
	if d.ctx.Err() != nil {
		return pk, packets.ErrRejectPacket
	}
	if !d.used {
		d.used = true
		h.markUsed(cl.ID)
	}
	var code packets.Code
	k := d.acks.enqueue(func() error {
		<-d.room
		return cl.WritePacket(newAckPacket(pk.FixedHeader.Qos, pk.PacketID, code))
	})
	m.Session, m.ID, m.Repeat, m.Kept = sessionPrefix+cl.ID, uint64(pk.PacketID), pk.FixedHeader.Dup, pk.FixedHeader.Qos == 2
	m.Done = func(err error) {
		if unreadable := new(gateway.Unreadable); errors.As(err, &unreadable) && cl.Properties.ProtocolVersion >= 5 {
			code = packets.ErrPayloadFormatInvalid
			code.Reason = names.Cut(unreadable.Why, maxReason)
		}
		k.release()
	}
	err := h.handleMessage(d.ctx, m, pk.TopicName)
	var refused *gateway.Refused
	switch {
	case err == nil:
	case !errors.As(err, &refused): // the gateway ends; the device resends the message
	case cl.Properties.ProtocolVersion < 5:
		// An acknowledgement would mean a stored message, and MQTT 3.1.1 has no other answer.
		return pk, errors.Join(packets.ErrRejectPacket, h.stopClient(cl, refused))
	default:
		code = packets.ErrTopicNameInvalid
		if m.Key != "" {
			code = packets.ErrPayloadFormatInvalid
		}
		if refused.Later {
			code = packets.ErrQuotaExceeded
		}
		code.Reason = names.Cut(refused.Why, maxReason)
		k.release()
	}
	return pk, packets.ErrRejectPacket
}

// handleMessage gives a message to the gateway, or returns the reason for its refusal.
func (h *hook) handleMessage(ctx context.Context, m *gateway.Message, topic string) (err error) {
	if h.options.Sparkplug != nil && sparkplug.HasTopic(topic) {
		return h.options.Sparkplug.HandleMessage(ctx, m, topic, func(command string, payload []byte) { h.server.Publish(command, payload, false, 0) })
	}
	if err = checkTopic(topic); err == nil {
		m.Key, err = h.options.Topics.Key(topic)
	}
	if err != nil {
		h.gateway.Refuse(gateway.MQTT, err)
		return err
	}
	return h.gateway.Take(ctx, m)
}

// OnWillSent handles the death of an edge node, sent by the broker on behalf of the node.
func (h *hook) OnWillSent(_ *mochi.Client, pk packets.Packet) {
	if h.options.Sparkplug != nil && sparkplug.HasTopic(pk.TopicName) {
		h.handleMessage(h.ctx, &gateway.Message{Input: gateway.MQTT, Payload: pk.Payload}, pk.TopicName)
	}
}

func (h *hook) stopClient(cl *mochi.Client, err error) error {
	cl.Stop(err)
	return err
}

// newAckPacket returns the PUBACK or PUBREC of a message.
func newAckPacket(qos byte, id uint16, code packets.Code) packets.Packet {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: id, ReasonCode: code.Code}
	if qos == 2 {
		pk.FixedHeader.Type = packets.Pubrec
	}
	pk.Properties.ReasonString = code.Reason
	return pk
}

// OnPacketEncode sets the code of each PUBCOMP to success. The gateway answers QoS 2 itself, so
// the library does not know the packet ids and would send "packet identifier not found", an
// error for devices. The PUBREC has already confirmed the storing of the message.
func (h *hook) OnPacketEncode(cl *mochi.Client, pk packets.Packet) packets.Packet {
	if pk.FixedHeader.Type == packets.Connack {
		return h.completeConnack(cl, pk)
	}
	if pk.FixedHeader.Type == packets.Pubcomp {
		pk.ReasonCode, pk.Properties.ReasonString = packets.CodeSuccess.Code, ""
	}
	return pk
}

// StoredClients returns the sessions of the previous run. Their devices find their sessions
// present, and resend unacknowledged messages.
func (h *hook) StoredClients() ([]storage.Client, error) {
	var clients []storage.Client
	for _, s := range h.knownSessions {
		if id, ok := strings.CutPrefix(s, sessionPrefix); ok {
			clients = append(clients, storage.Client{ID: id, Listener: "mqtt", ProtocolVersion: 5,
				Properties: storage.ClientProperties{SessionExpiryIntervalFlag: true, SessionExpiryInterval: uint32(keepSession / time.Second)}})
		}
	}
	return clients, nil
}

// traceOf returns the trace context in the user properties of an MQTT 5 message.
func traceOf(properties []packets.UserProperty) trace.Context {
	var h map[string][]string
	for _, p := range properties {
		if p.Key == trace.HeaderParent || p.Key == trace.HeaderState {
			if h == nil {
				h = map[string][]string{}
			}
			h[p.Key] = append(h[p.Key], p.Val)
		}
	}
	return trace.Of(h)
}
