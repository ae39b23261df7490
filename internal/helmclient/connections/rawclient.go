// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Raw returns a client for requests to any path, in JSON.
func (g *Getter) Raw() (rest.Interface, error) {
	config := rest.CopyConfig(g.Config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	return rest.UnversionedRESTClientFor(config)
}
