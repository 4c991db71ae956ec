package opcua

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/ua"
)

// loadCertificate reads the client's own certificate.
func (c *Client) loadCertificate() error {
	pair, err := tls.LoadX509KeyPair(c.o.Cert, c.o.Key)
	if err != nil {
		return err
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return errors.New("want a key of RSA: the policies of OPC UA have no other")
	}
	if len(pair.Leaf.URIs) == 0 {
		return errors.New("the certificate has no application URI, without which servers refuse it: make one as docs/fieldbus.md has it")
	}
	c.own, c.key = pair.Leaf, key
	return nil
}

// endpoint chooses one of the server's endpoints, and how to log in.
func (c *Client) endpoint(ctx context.Context) (opts []opcua.Option, policy string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	all, err := opcua.GetEndpoints(ctx, c.o.URL)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", errEndpoints, err)
	}
	slices.SortStableFunc(all, func(a, b *ua.EndpointDescription) int { return int(b.SecurityLevel) - int(a.SecurityLevel) })
	for _, e := range all {
		policy := e.SecurityPolicyURI[strings.LastIndex(e.SecurityPolicyURI, "#")+1:]
		switch {
		case !c.takes(policy):
			continue
		case c.trust != nil && !bytes.Equal(e.ServerCertificate, c.trust):
			return nil, "", errors.New("the server presents another certificate than that of gateway.opcua.trust, and nothing was sent: if the server has a new certificate, compare it with the one that the server itself shows, and give that file; if it has none, gateway.opcua.url leads to another server, or another server answers in its place")
		}
		opts, err := c.login(e)
		return opts, policy, err
	}
	return nil, "", c.noEndpoint()
}

// login says how to log in at an endpoint.
func (c *Client) login(e *ua.EndpointDescription) ([]opcua.Option, error) {
	var opts []opcua.Option
	if c.own != nil {
		opts = append(opts, opcua.Certificate(c.own.Raw), opcua.PrivateKey(c.key))
	}
	way, want := ua.UserTokenTypeAnonymous, "set gateway.opcua.user with EUSN_GATEWAY_OPCUA_PASSWORD, or gateway.opcua.login: certificate"
	switch {
	case c.o.Login == "certificate":
		way, want = ua.UserTokenTypeCertificate, "set gateway.opcua.user with EUSN_GATEWAY_OPCUA_PASSWORD"
		opts = append(opts, opcua.AuthCertificate(c.own.Raw), opcua.AuthPrivateKey(c.key))
	case c.o.User != "":
		way, want = ua.UserTokenTypeUserName, "leave gateway.opcua.user empty, or set gateway.opcua.login: certificate"
		opts = append(opts, opcua.AuthUsername(c.o.User, c.o.Password))
	default:
		opts = append(opts, opcua.AuthAnonymous())
	}
	if !slices.ContainsFunc(e.UserIdentityTokens, func(t *ua.UserTokenPolicy) bool { return t.TokenType == way }) {
		return nil, fmt.Errorf("the server does not let anybody log in this way (%s): %s", loginNames[way], want)
	}
	return append(opts, opcua.SecurityFromEndpoint(e, way)), nil
}

var loginNames = map[ua.UserTokenType]string{ua.UserTokenTypeAnonymous: "anonymous", ua.UserTokenTypeUserName: "name and password", ua.UserTokenTypeCertificate: "certificate"}
