package live_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// hostileServer answers the first question of an OPC UA client with a table of 2^31-1
// texts.
func hostileServer(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	frame := func(kind string, body ...uint32) []byte {
		b := append([]byte(kind), 0, 0, 0, 0)
		for _, word := range body {
			b = binary.LittleEndian.AppendUint32(b, word)
		}
		return b
	}
	send := func(c net.Conn, b []byte) {
		binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
		c.Write(b)
	}
	serve := func(c net.Conn) {
		defer c.Close()
		for head := make([]byte, 8); ; {
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			body := make([]byte, binary.LittleEndian.Uint32(head[4:])-8)
			if _, err := io.ReadFull(c, body); err != nil {
				return
			}
			switch string(head[:4]) {
			case "HELF":
				send(c, frame("ACKF", 0, 65535, 65535, 0, 0))
			case "OPNF":
				policy := "http://opcfoundation.org/UA/SecurityPolicy#None"
				b := append(frame("OPNF", 1, uint32(len(policy))), policy...)
				for _, word := range []uint32{0xffffffff, 0xffffffff, 1, 1} { // no certificates; sequence, request
					b = binary.LittleEndian.AppendUint32(b, word)
				}
				b = append(b, 1, 0, 0xc1, 1)                // OpenSecureChannelResponse
				b = append(b, make([]byte, 8+4+4+1)...)     // time, handle, result, no diagnostics
				b = append(b, 0xff, 0xff, 0xff, 0x7f, 0, 0) // the table
				send(c, b)
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// connectMQTT returns a broker's answer to a CONNECT of MQTT 3.1.1.
func connectMQTT(t *testing.T, addr string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(pipelinetest.Patience))
	c.Write([]byte("\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01x"))
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// An OPC UA server whose data ends its reader ends nothing else: the same gateway still
// accepts samples over HTTP and clients over MQTT.
func TestHostileOPCUAServerEndsNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", in("archive"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "20")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", in("model"), "--dir", in("data"), "--port", "-1", "--partitions", "2")
	defer stage.Stop(t)
	url := clitest.ServerURL.FindString(stage.Messages())
	port := planttest.FreePort(t)
	g := startProcess(t, "gateway", "-c", clitest.Write(t, in("gateway.yaml"), `model: `+in("model")+`
nats: {url: "`+url+`"}
gateway:
  outbox: `+in("outbox")+`
  opcua:
    url: opc.tcp://`+hostileServer(t)+`
    nodes: {press/c0: ns=1;s=Press.X, press/c1: ns=1;s=Press.Y}
`), "--http-listen", "127.0.0.1:"+port, "--mqtt-listen", "127.0.0.1:0")
	defer g.kill()
	await := func(text string, lines int) {
		t.Helper()
		for begin := time.Now(); g.says(text) < lines; time.Sleep(20 * time.Millisecond) {
			if time.Since(begin) > pipelinetest.Patience {
				t.Fatalf("the log has fewer than %d lines with %q", lines, text)
			}
		}
	}
	await("HTTP at", 1)
	for want := range 3 {
		await("the process that reads the server has ended (fatal error: ", want)
		res, err := http.Post("http://127.0.0.1:"+port+"/v1/sensors/mill", "application/json", strings.NewReader(`{"c0": 1, "c1": 2}`))
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode/100 != 2 {
			t.Errorf("HTTP after %d ended processes: %s", want, res.Status)
		}
		if answer := connectMQTT(t, g.addr); answer != "\x20\x02\x00\x00" {
			t.Errorf("MQTT after %d ended processes: CONNACK is %q", want, answer)
		}
	}
}
