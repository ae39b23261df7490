/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package clusterlink

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

// Cause is why a Cluster does not answer, for people. It is empty where the network is at fault, which looks different from try to try.
type Cause string

// Causes that only a person can remove.
const (
	// CauseLocal: the address is refused, see Options.RefuseLocal.
	CauseLocal Cause = "the address in its kubeconfig is a loopback or link-local one, or one of the cloud's own, to which the manager does not " +
		"connect unless it is started with --allow-local-addresses"
	// CauseCredentials: the API server answers 401.
	CauseCredentials Cause = "the API server does not accept the credentials of the kubeconfig"
	// CauseCertificate: the certificate of the API server is not trusted, or is for another name.
	CauseCertificate Cause = "the certificate of the API server is not one that the kubeconfig trusts for this address"
	// CauseName: the name of the host does not exist.
	CauseName Cause = "the host name in the kubeconfig does not exist"
)

// causeOf is the cause of a failed try.
func causeOf(err error) Cause {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	switch {
	case errors.Is(err, dialguard.ErrRefused):
		return CauseLocal
	case errors.Is(err, errUnauthorized):
		return CauseCredentials
	case errors.As(err, &certificate):
		return CauseCertificate
	case errors.As(err, &name) && name.IsNotFound:
		return CauseName
	default:
		return ""
	}
}
