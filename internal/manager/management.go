// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"k8s.io/client-go/rest"
)

// withoutFiles converts the manager's own config to the form of configs for workload clusters. Such configs must not
// name files. So the transport reads the files of the config. One of them is the pod's token, which the kubelet renews.
func withoutFiles(config *rest.Config) (*rest.Config, error) {
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
