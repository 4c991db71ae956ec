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
	wantTrust  = "configure the server to trust the certificate of gateway.opcua.cert: the server keeps refused certificates, often in a folder named rejected"
	wantLogin  = "correct gateway.opcua.user and EUSN_GATEWAY_OPCUA_PASSWORD"
	wantPolicy = "set gateway.opcua.security to a policy that the server supports"
	wantNode   = "correct gateway.opcua.nodes"
)

// advice maps a server's status code to what the user can do.
var advice = map[ua.StatusCode]string{
	ua.StatusBadCertificateUntrusted:           wantTrust,
	ua.StatusBadSecurityChecksFailed:           wantTrust,
	ua.StatusBadCertificateInvalid:             "make a new certificate for gateway.opcua.cert, as described in docs/fieldbus.md",
	ua.StatusBadCertificateURIInvalid:          "make a new certificate for gateway.opcua.cert, as described in docs/fieldbus.md, with an application URI",
	ua.StatusBadCertificateUseNotAllowed:       "make a new certificate for gateway.opcua.cert, as described in docs/fieldbus.md, with its key usages",
	ua.StatusBadCertificateTimeInvalid:         "make a new certificate for gateway.opcua.cert, and configure the server to trust it; or set the clock of the server or of this machine",
	ua.StatusBadUserAccessDenied:               wantLogin,
	ua.StatusBadIdentityTokenRejected:          wantLogin,
	ua.StatusBadIdentityTokenInvalid:           wantLogin,
	ua.StatusBadSecurityPolicyRejected:         wantPolicy,
	ua.StatusBadSecurityModeRejected:           wantPolicy,
	ua.StatusBadNodeIDUnknown:                  "the server has no such node: " + wantNode,
	ua.StatusBadNodeIDInvalid:                  "the server has no such node: " + wantNode,
	ua.StatusBadAttributeIDInvalid:             "the node is no variable: " + wantNode,
	ua.StatusBadNotReadable:                    "this user has no right to read the node: " + wantLogin + ", or the rights on the server",
	ua.StatusBadTooManySessions:                "close other clients of the server, or raise its limit of sessions",
	ua.StatusBadTooManySubscriptions:           "close other clients of the server, or raise its limit of subscriptions",
	ua.StatusBadTooManyMonitoredItems:          "configure fewer variables, or raise the server's limit of monitored items",
	ua.StatusBadServerHalted:                   "start the server's application",
	ua.StatusBadTCPEndpointURLInvalid:          "correct gateway.opcua.url",
	ua.StatusBadMonitoredItemFilterUnsupported: wantNode,
}

func timedOut(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// addAdvice adds advice for the user to an error.
func (c *Client) addAdvice(err error) error {
	status, dial := ua.StatusCode(0), new(net.OpError)
	switch {
	case timedOut(err):
		return fmt.Errorf("the server does not answer within %v: check gateway.opcua.url, and whether the server runs", c.wait)
	case c.certificate != nil && time.Now().After(c.certificate.NotAfter):
		return fmt.Errorf("%w: the certificate of gateway.opcua.cert has expired on %s: make a new one, and configure the server to trust it", err, c.certificate.NotAfter.Format(time.DateOnly))
	case errors.Is(err, ua.StatusBadIdentityTokenRejected) && c.options.Login == "certificate":
		return fmt.Errorf("%w: register the certificate of gateway.opcua.cert for a user on the server", err)
	case errors.As(err, &status) && advice[status] != "":
		return fmt.Errorf("%w: %s", err, advice[status])
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: check gateway.opcua.url, and whether the server runs", err)
	case (errors.Is(err, io.EOF) || strings.Contains(err.Error(), "EOF")) && c.certificate != nil:
		return fmt.Errorf("the server has closed the connection without a reason (%w): %s", err, wantTrust)
	}
	if errors.Is(err, errEndpoints) {
		return fmt.Errorf("%w: is another server at the address of gateway.opcua.url?", err)
	}
	return err
}

// errEndpoints is the error of a server that lists no endpoints.
var errEndpoints = errors.New("the server sends no OPC UA endpoints")
