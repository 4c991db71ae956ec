package natsclient

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// AnswersTo reports whether a responder may answer to a reply subject: to an inbox alone,
// of the default prefix or of the one of the responder's own connection. A consumer can be
// told to deliver to any subject, also to one where a responder listens. What it delivers
// there has the reply $JS.ACK..., and may lie in a login's rights or not.
func AnswersTo(nc *nats.Conn, reply string) bool {
	prefix := nc.Opts.InboxPrefix
	return strings.HasPrefix(reply, nats.InboxPrefix) || prefix != "" && strings.HasPrefix(reply, strings.TrimSuffix(prefix, ".")+".")
}

// RefusedAnswer reports whether the server has refused a message to an inbox or an
// acknowledgement: an answer that somebody else chose the subject of. It says nothing of
// what the login needs for its own work.
func RefusedAnswer(nc *nats.Conn, err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	_, rest, found := strings.Cut(err.Error(), `Permissions Violation for Publish to "`)
	subject, _, _ := strings.Cut(rest, `"`)
	return found && (AnswersTo(nc, subject) || strings.HasPrefix(subject, "$JS.ACK."))
}
