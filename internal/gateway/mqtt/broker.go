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
	sessionPrefix = "mqtt:"     // of the names of devices' sessions
	closeWait     = time.Second // for the last acknowledgements
	mostReason    = 500         // characters of a reason in an acknowledgement
)

// Broker is a broker that takes messages and delivers none, but the commands to
// edge nodes of Sparkplug B.
type Broker struct {
	server *mochi.Server
	addr   net.Addr
	stop   context.CancelFunc
}

// BrokerOptions say what a broker does.
type BrokerOptions struct {
	Addr       string // to listen on
	Access     gateway.Access
	Topics     *gateway.Topics
	Sparkplug  *sparkplug.Host // takes the topics of Sparkplug B; nil: none is taken
	MaxMessage int             // bytes of a packet
	Log        *slog.Logger

	sessionsAway int // 0 = sessionsAway; another one is for tests
}

// Listen starts a broker for g. Call it before g runs, since it asks for the
// sessions that g remembers.
func Listen(g *gateway.Gateway, o BrokerOptions) (*Broker, error) {
	l, err := o.Access.Listen(o.Addr)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Broker{addr: l.Addr(), stop: stop}
	b.server = mochi.New(&mochi.Options{InlineClient: o.Sparkplug != nil, Capabilities: capabilities(o.MaxMessage), Logger: slog.New(quiet{o.Log.Handler()})})
	h := &hook{g: g, o: o, ctx: ctx, known: g.Sessions(), server: b.server, devices: map[*mochi.Client]*device{}, byID: map[string]*mochi.Client{}, coming: map[string]*mochi.Client{}, used: map[string]bool{}}
	for _, s := range h.known {
		h.used[strings.TrimPrefix(s, sessionPrefix)] = true
	}
	places := listen.NewPlaces(max(1, largeBytes/max(1, o.MaxMessage)))
	if err := errors.Join(b.server.AddHook(h, nil), b.server.AddListener(listeners.NewNet("mqtt", timed{l, loginWait, writeWait, listen.DefaultPace, places, func(err error) { g.Refuse(gateway.MQTT, err) }, o.MaxMessage}))); err != nil {
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

// Addr is where the broker listens.
func (b *Broker) Addr() net.Addr { return b.addr }

// Close ends all connections, after the acknowledgements of what is stored.
func (b *Broker) Close() {
	b.stop()
	time.Sleep(closeWait / 10)
	b.server.Close()
}

// quiet lets the broker's own log through as debug lines: that a device breaks
// off is no news.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && q.Handler.Enabled(ctx, l) || q.Handler.Enabled(ctx, slog.LevelDebug)
}

// WithAttrs and WithGroup keep it quiet.
func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a)} }
func (q quiet) WithGroup(name string) slog.Handler   { return quiet{q.Handler.WithGroup(name)} }

// hook is what the broker asks and tells.
type hook struct {
	mochi.HookBase
	g     *gateway.Gateway
	o     BrokerOptions
	ctx   context.Context
	known []string // sessions of the run before

	server *mochi.Server

	mu      sync.Mutex
	devices map[*mochi.Client]*device
	byID    map[string]*mochi.Client
	coming  map[string]*mochi.Client // connections that are being set up, by client id
	used    map[string]bool          // client ids that have sent with QoS 1 or 2
}

func (h *hook) ID() string { return "gateway" }

func (h *hook) Provides(b byte) bool {
	return bytes.Contains([]byte{mochi.OnConnect, mochi.OnConnectAuthenticate, mochi.OnACLCheck, mochi.OnSessionEstablish, mochi.OnSubscribe, mochi.OnClientExpired, mochi.OnSessionEstablished, mochi.OnPacketRead, mochi.OnPublish, mochi.OnPacketEncode, mochi.OnDisconnect, mochi.OnWillSent, mochi.StoredClients}, []byte{b})
}

func (h *hook) OnConnectAuthenticate(_ *mochi.Client, pk packets.Packet) bool {
	ok := h.o.Access.Allows(string(pk.Connect.Username), string(pk.Connect.Password))
	if !ok {
		h.g.Refuse(gateway.MQTT, errors.New("a device has logged in with a name or password that is not gateway.user and gateway.password"))
	}
	return ok
}

// OnACLCheck lets devices send only, and edge nodes of Sparkplug B wait for
// commands. Nothing else would ever be delivered.
func (h *hook) OnACLCheck(_ *mochi.Client, topic string, write bool) bool {
	return write || h.o.Sparkplug != nil && sparkplug.Commands(topic)
}

// device is a connection of a device.
type device struct {
	acks   *acks
	room   chan struct{} // one for each message without an acknowledgement
	ctx    context.Context
	cancel context.CancelFunc
	taking sync.Mutex // while the gateway takes a message that may come again
	used   bool       // it has sent such a message; guarded by taking
}

// OnSessionEstablished is after the login and before the first message, and
// OnDisconnect always follows it. The connection that the device had before may wait
// with a message, which comes again on the new one: it is let go first, or it might
// be taken after its repeat.
func (h *hook) OnSessionEstablished(cl *mochi.Client, pk packets.Packet) {
	if before := h.replace(cl); before != nil {
		before.cancel()
		before.taking.Lock() // until it has let go
		defer before.taking.Unlock()
	}
	if pk.Connect.Clean && cl.ID != "" {
		h.g.Forget(h.ctx, sessionPrefix+cl.ID)
	}
}

// replace makes cl the connection of its device, and returns the one before.
func (h *hook) replace(cl *mochi.Client) *device {
	d := &device{acks: newAcks(cl.Stop), room: make(chan struct{}, outbox.Window)}
	d.ctx, d.cancel = context.WithCancel(h.ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.coming[cl.ID] == cl {
		delete(h.coming, cl.ID)
	}
	before := h.devices[h.byID[cl.ID]]
	h.devices[cl], h.byID[cl.ID] = d, cl
	return before
}

// OnDisconnect is after the last message.
func (h *hook) OnDisconnect(cl *mochi.Client, why error, _ bool) {
	if errors.Is(why, packets.ErrPacketTooLarge) {
		h.g.Refuse(gateway.MQTT, fmt.Errorf("client %q has sent a packet of more than %d bytes, and its connection is ended: send fewer samples a message, or raise gateway.max_message", names.Cut(cl.ID, 40), h.o.MaxMessage))
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
	}
}

// use notes that a device has sent a message that may come again.
func (h *hook) use(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used[id] = true
}

func (h *hook) device(cl *mochi.Client) *device {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.devices[cl]
}

// OnPacketRead hears that a device has the PUBREC of a message, and may use its id
// again (PUBREL). If the gateway takes nothing, the connection ends without a PUBCOMP,
// and the device says it again.
func (h *hook) OnPacketRead(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	if pk.FixedHeader.Type != packets.Pubrel {
		return pk, nil
	}
	if d := h.device(cl); d == nil || h.g.Release(d.ctx, sessionPrefix+cl.ID, uint64(pk.PacketID)) != nil {
		return pk, packets.ErrRejectPacket
	}
	return pk, nil
}

// OnPublish gives a message to the gateway. It waits while that holds back, and
// the device's connection with it.
func (h *hook) OnPublish(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline { // a command of ours
		return pk, nil
	}
	d := h.device(cl)
	if d == nil {
		return pk, packets.ErrRejectPacket
	}
	m := &gateway.Message{Input: gateway.MQTT, From: cl.Net.Remote, Payload: pk.Payload, Trace: traceOf(pk.Properties.User)}
	if pk.FixedHeader.Qos == 0 { // it does not come again
		h.take(h.ctx, m, pk.TopicName)
		return pk, packets.ErrRejectPacket
	}
	d.taking.Lock()
	defer d.taking.Unlock()
	select { // a device that sends more than it may without an acknowledgement waits
	case d.room <- struct{}{}:
	case <-d.ctx.Done():
	}
	if d.ctx.Err() != nil {
		return pk, packets.ErrRejectPacket
	}
	if !d.used {
		d.used = true
		h.use(cl.ID)
	}
	var code packets.Code
	k := d.acks.add(func() error {
		<-d.room
		return cl.WritePacket(acknowledgement(pk.FixedHeader.Qos, pk.PacketID, code))
	})
	m.Session, m.ID, m.Repeat, m.Kept = sessionPrefix+cl.ID, uint64(pk.PacketID), pk.FixedHeader.Dup, pk.FixedHeader.Qos == 2
	m.Done = func(err error) {
		if unreadable := new(gateway.Unreadable); errors.As(err, &unreadable) && cl.Properties.ProtocolVersion >= 5 {
			code = packets.ErrPayloadFormatInvalid
			code.Reason = names.Cut(unreadable.Why, mostReason)
		}
		k.done()
	}
	err := h.take(d.ctx, m, pk.TopicName)
	var refused *gateway.Refused
	switch {
	case err == nil:
	case !errors.As(err, &refused): // it ends; the device sends the message again
	case cl.Properties.ProtocolVersion < 5:
		// An acknowledgement would say that the message is stored, and MQTT
		// 3.1.1 has no other answer.
		return pk, errors.Join(packets.ErrRejectPacket, h.disconnect(cl, refused))
	default:
		code = packets.ErrTopicNameInvalid
		if m.Key != "" {
			code = packets.ErrPayloadFormatInvalid
		}
		if refused.Later {
			code = packets.ErrQuotaExceeded
		}
		code.Reason = names.Cut(refused.Why, mostReason)
		k.done()
	}
	return pk, packets.ErrRejectPacket
}

// take gives a message to the gateway, or says why it is refused.
func (h *hook) take(ctx context.Context, m *gateway.Message, topic string) (err error) {
	if h.o.Sparkplug != nil && sparkplug.Has(topic) {
		return h.o.Sparkplug.Take(ctx, m, topic, func(command string, payload []byte) { h.server.Publish(command, payload, false, 0) })
	}
	if err = checkTopic(topic); err == nil {
		m.Key, err = h.o.Topics.Key(topic)
	}
	if err != nil {
		h.g.Refuse(gateway.MQTT, err)
		return err
	}
	return h.g.Take(ctx, m)
}

// OnWillSent takes the death of an edge node, which the broker sends for it.
func (h *hook) OnWillSent(_ *mochi.Client, pk packets.Packet) {
	if h.o.Sparkplug != nil && sparkplug.Has(pk.TopicName) {
		h.take(h.ctx, &gateway.Message{Input: gateway.MQTT, Payload: pk.Payload}, pk.TopicName)
	}
}

func (h *hook) disconnect(cl *mochi.Client, why error) error {
	cl.Stop(why)
	return why
}

// acknowledgement is the PUBACK or PUBREC of a message.
func acknowledgement(qos byte, id uint16, code packets.Code) packets.Packet {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: id, ReasonCode: code.Code}
	if qos == 2 {
		pk.FixedHeader.Type = packets.Pubrec
	}
	pk.Properties.ReasonString = code.Reason
	return pk
}

// OnPacketEncode lets a PUBCOMP say success. The broker knows no packet ids of QoS
// 2, since the gateway answers itself, and would say that it has not found the
// id; devices take that for a failure. A PUBREC has said that the message is
// stored, and nothing is left to do.
func (h *hook) OnPacketEncode(cl *mochi.Client, pk packets.Packet) packets.Packet {
	if pk.FixedHeader.Type == packets.Connack {
		return h.connack(cl, pk)
	}
	if pk.FixedHeader.Type == packets.Pubcomp {
		pk.ReasonCode, pk.Properties.ReasonString = packets.CodeSuccess.Code, ""
	}
	return pk
}

// StoredClients are the sessions that the run before has left: their devices
// find them present, and send again what was not acknowledged.
func (h *hook) StoredClients() ([]storage.Client, error) {
	var all []storage.Client
	for _, s := range h.known {
		if id, ok := strings.CutPrefix(s, sessionPrefix); ok {
			all = append(all, storage.Client{ID: id, Listener: "mqtt", ProtocolVersion: 5,
				Properties: storage.ClientProperties{SessionExpiryIntervalFlag: true, SessionExpiryInterval: uint32(keepSession / time.Second)}})
		}
	}
	return all, nil
}

// traceOf is where a message of MQTT 5 stands in a trace, by its user properties.
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
