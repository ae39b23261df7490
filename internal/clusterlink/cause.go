// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"crypto/tls"
	"errors"
	"net"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

// Cause is the reason why a Cluster does not respond, as a text for users. It is empty for network errors, because
// their texts differ between attempts.
type Cause string

// Providers of Cluster API renew credentials, unless the Cluster is paused. Only a person can remove the other causes.
const (
	// CauseLocal means that the address is refused, see Options.RefuseLocal.
	CauseLocal Cause = "the kubeconfig has a loopback, link-local or cloud-internal address, to which the manager " +
		"connects only if it is started with --allow-local-addresses"
	// CauseCredentials means that the API server answers 401.
	CauseCredentials Cause = "the API server rejects the credentials in the kubeconfig"
	// CauseCertificate means that the certificate of the API server is not trusted, or has another name.
	CauseCertificate Cause = "the kubeconfig does not trust the certificate of the API server for this address"
	// CauseName means that the name of the host does not exist.
	CauseName Cause = "the host name in the kubeconfig cannot be resolved"
	// CauseMissing means that the cache has no kubeconfig Secret. The cache has only Secrets with this label.
	CauseMissing Cause = "there is no kubeconfig Secret with the label " + clusterv1.ClusterNameLabel
	// CauseRedirect means that the server redirects requests to another server.
	CauseRedirect Cause = "the server redirects requests to another server, which HelmOp does not follow"
)

// errNoKubeconfig means that the cache has no kubeconfig Secret of a Cluster.
var errNoKubeconfig = errors.New("there is no kubeconfig Secret")

// causeOf returns the cause of a failed attempt.
func causeOf(err error) Cause {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	switch {
	case errors.Is(err, dialguard.ErrRefused):
		return CauseLocal
	case errors.Is(err, errUnauthorized):
		return CauseCredentials
	case errors.Is(err, errRedirect):
		return CauseRedirect
	case errors.Is(err, errNoKubeconfig):
		return CauseMissing
	case errors.As(err, &certificate):
		return CauseCertificate
	case errors.As(err, &name) && name.IsNotFound:
		return CauseName
	default:
		return ""
	}
}
