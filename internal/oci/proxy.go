// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const hintProxy = "check the proxy's address and credentials, and that it allows connections to the registry"

// proxyAnswer is the status of an answer that a proxy sent in place of the registry.
type proxyAnswer int

func (s proxyAnswer) Error() string {
	return fmt.Sprintf("the proxy answered %d", int(s))
}

// checkConnect implements http.Transport.OnProxyConnectResponse. Without it, the error would be the
// text of the proxy's answer.
func checkConnect(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return proxyAnswer(resp.StatusCode)
	}
	return nil
}

// fromProxy fills in the error if the proxy caused it, and reports whether it did.
func fromProxy(e *ocierr.Error, err error) bool {
	var answer proxyAnswer
	var network *net.OpError
	switch {
	case errors.As(err, &answer) && answer == http.StatusProxyAuthRequired:
		e.Kind, e.Detail, e.Hint = ocierr.ErrUnauthorized, "the proxy requires credentials or refuses the given ones", hintProxy
	case errors.As(err, &answer):
		e.Kind, e.Detail, e.Hint = ocierr.ErrUnreachable, answer.Error(), hintProxy
	case errors.Is(err, errLocal):
		return false
	case errors.As(err, &network) && (network.Op == "proxyconnect" || strings.HasPrefix(network.Op, "socks ")):
		fromDial(e, network.Err)
		e.Kind, e.Detail, e.Hint = ocierr.ErrUnreachable, "the proxy: "+e.Detail, hintProxy
	default:
		return false
	}
	return true
}

// fromDial fills in the reason why there is no connection.
func fromDial(e *ocierr.Error, err error) {
	if !fromTLS(e, err) && !e.FromNetwork(err) {
		e.Detail = ocierr.SafeText(err)
	}
}
