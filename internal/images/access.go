// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// Access returns the settings for requests to the registry of an image in a chart. They are the settings of the chart.
// Plain HTTP, the client certificate and the identity at a cloud provider apply only to the host of the chart.
func Access(chart oci.Access, chartURL string, image registry.Reference) oci.Access {
	if IsOnHostOf(chartURL, chart.Insecure, image) {
		return chart
	}
	chart.Insecure, chart.ClientCert, chart.ClientKey, chart.CloudProvider = false, nil, nil, ""
	return chart
}

// IsOnHostOf reports whether an image is on the host that a chart comes from. Docker Hub has several names. insecure
// means that the chart is pulled by plain HTTP.
func IsOnHostOf(chartURL string, insecure bool, image registry.Reference) bool {
	_, rest, _ := strings.Cut(chartURL, "://")
	host, _, _ := strings.Cut(rest, "/")
	return routes.CanonicalHost(host, insecure) == routes.CanonicalHost(image.Registry, insecure)
}

// URL returns the repository of an image in the form that clients of registries use, oci://host/repository.
func URL(image registry.Reference) string { return "oci://" + image.Registry + "/" + image.Repository }
