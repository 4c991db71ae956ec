package opcua

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/gopcua/opcua/ua"
)

const (
	wantTrust  = "let the server trust the certificate of gateway.opcua.cert: it keeps those that it has refused, often in a folder named rejected"
	wantLogin  = "correct gateway.opcua.user and EUSN_GATEWAY_OPCUA_PASSWORD"
	wantPolicy = "set gateway.opcua.security to a policy that the server has"
	wantNode   = "correct gateway.opcua.nodes"
)

// advice says what to do about what a server answers.
var advice = map[ua.StatusCode]string{
	ua.StatusBadCertificateUntrusted:           wantTrust,
	ua.StatusBadSecurityChecksFailed:           wantTrust,
	ua.StatusBadCertificateInvalid:             "make another certificate for gateway.opcua.cert, as docs/fieldbus.md has it",
	ua.StatusBadCertificateURIInvalid:          "make another certificate for gateway.opcua.cert, as docs/fieldbus.md has it, with an application URI",
	ua.StatusBadCertificateUseNotAllowed:       "make another certificate for gateway.opcua.cert, as docs/fieldbus.md has it, with its key usages",
	ua.StatusBadCertificateTimeInvalid:         "make a new certificate for gateway.opcua.cert, and let the server trust it; or set the clock of the server or of this machine",
	ua.StatusBadUserAccessDenied:               wantLogin,
	ua.StatusBadIdentityTokenRejected:          wantLogin,
	ua.StatusBadIdentityTokenInvalid:           wantLogin,
	ua.StatusBadSecurityPolicyRejected:         wantPolicy,
	ua.StatusBadSecurityModeRejected:           wantPolicy,
	ua.StatusBadNodeIDUnknown:                  "the server has no such node: " + wantNode,
	ua.StatusBadNodeIDInvalid:                  "the server has no such node: " + wantNode,
	ua.StatusBadAttributeIDInvalid:             "the node is no variable: " + wantNode,
	ua.StatusBadNotReadable:                    "this user may not read it: " + wantLogin + ", or the rights on the server",
	ua.StatusBadTooManySessions:                "end other clients of the server, or let it take more of them",
	ua.StatusBadTooManySubscriptions:           "end other clients of the server, or let it take more subscriptions",
	ua.StatusBadTooManyMonitoredItems:          "name fewer variables, or let the server take more of them",
	ua.StatusBadServerHalted:                   "start the server's application",
	ua.StatusBadTCPEndpointURLInvalid:          "correct gateway.opcua.url",
	ua.StatusBadMonitoredItemFilterUnsupported: wantNode,
}

func timedOut(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// explain adds to an error what to do about it.
func (c *Client) explain(err error) error {
	status, dial := ua.StatusCode(0), new(net.OpError)
	switch {
	case timedOut(err):
		return fmt.Errorf("the server does not answer within %v: check gateway.opcua.url, and whether the server runs", c.wait)
	case c.own != nil && time.Now().After(c.own.NotAfter):
		return fmt.Errorf("%w: the certificate of gateway.opcua.cert has expired on %s: make a new one, and let the server trust it", err, c.own.NotAfter.Format(time.DateOnly))
	case errors.Is(err, ua.StatusBadIdentityTokenRejected) && c.o.Login == "certificate":
		return fmt.Errorf("%w: let the server know the certificate of gateway.opcua.cert as that of a user", err)
	case errors.As(err, &status) && advice[status] != "":
		return fmt.Errorf("%w: %s", err, advice[status])
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: check gateway.opcua.url, and whether the server runs", err)
	case (errors.Is(err, io.EOF) || strings.Contains(err.Error(), "EOF")) && c.own != nil:
		return fmt.Errorf("the server has closed the connection, and does not say why (%w): %s", err, wantTrust)
	}
	if errors.Is(err, errEndpoints) {
		return fmt.Errorf("%w: is another server at the address of gateway.opcua.url?", err)
	}
	return err
}

// errEndpoints is a server that does not say how to connect.
var errEndpoints = errors.New("the server does not answer as OPC UA has it")
