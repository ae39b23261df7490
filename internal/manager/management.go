// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"k8s.io/client-go/rest"
)

// wayIn is the manager's own way to its API server in the form that those to workload clusters have. What the config names of files,
// such as the token of the pod, which is renewed there, stays behind the transport: a config of a workload cluster must not name any.
func wayIn(config *rest.Config) (*rest.Config, error) {
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: url.String(), Transport: transport}, nil
}
