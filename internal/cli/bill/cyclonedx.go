// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"cmp"
	"io"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// The names of properties of components.
const (
	propertyHelmOp   = "helmop:helmop"
	propertyCRD      = "helmop:crd"
	propertyAttached = "helmop:attached"
	propertySigner   = "helmop:verified-signer"
	propertyUnknown  = "helmop:unknown"
)

// WriteCycloneDX writes the bill as a CycloneDX 1.6 document in JSON: a component for each chart and image. A chart
// depends on its images. Properties contain the HelmOps, the CRDs, the verified signers, and the reason why the
// registry could not be read.
func (b *Bill) WriteCycloneDX(to io.Writer, created time.Time) error {
	digest, err := b.digest()
	if err != nil {
		return err
	}
	document := cyclonedx.NewBOM()
	document.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(spdxNamespace+digest)).URN()
	document.Metadata = &cyclonedx.Metadata{
		Timestamp: created.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{BOMRef: documentName, Type: cyclonedx.ComponentTypePlatform, Name: documentName},
		Tools: &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{Type: cyclonedx.ComponentTypeApplication,
			Name: "kubectl-helmop", Version: version.Version}}},
	}
	links := b.links()
	components, roots := []cyclonedx.Component{}, []string{}
	dependencies := []cyclonedx.Dependency{{Ref: documentName, Dependencies: &roots}}
	for i := range b.Charts {
		chart := &b.Charts[i]
		one := component(chart.Name, cyclonedx.ComponentTypeApplication, chart.URL, cmp.Or(chart.Version, chart.Tag),
			chart.Digest, chart.packageURL(), &chart.Findings)
		addProperties(&one, propertyHelmOp, links.helmOps[chart.Name])
		addProperties(&one, propertyCRD, links.crds[chart.Name])
		addProperties(&one, propertySigner, links.signers[chart.Name])
		components, roots = append(components, one), append(roots, one.BOMRef)
		needs := links.images[chart.Name]
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: one.BOMRef, Dependencies: &needs})
	}
	for i := range b.Images {
		image := &b.Images[i]
		one := component(image.Name, cyclonedx.ComponentTypeContainer, cmp.Or(image.Repository, image.Name), image.Tag,
			image.Digest, image.packageURL(), &image.Findings)
		components = append(components, one)
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: one.BOMRef})
	}
	document.Components, document.Dependencies = &components, &dependencies
	return cyclonedx.NewBOMEncoder(to, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).
		EncodeVersion(document, cyclonedx.SpecVersion1_6)
}

func component(ref string, kind cyclonedx.ComponentType, name, version, digest, locator string,
	findings *Findings,
) cyclonedx.Component {
	one := cyclonedx.Component{BOMRef: ref, Type: kind, Name: name, Version: version, PackageURL: locator}
	if hex := sum(digest); hex != "" {
		one.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex}}
	}
	var attached []string
	for _, other := range findings.Attached {
		attached = append(attached, other.Kind+" "+other.Digest)
	}
	addProperties(&one, propertyAttached, attached)
	if findings.Message != "" {
		addProperties(&one, propertyUnknown, []string{findings.Message})
	}
	return one
}

// addProperties adds a property for each value.
func addProperties(to *cyclonedx.Component, name string, values []string) {
	if len(values) == 0 {
		return
	}
	properties := []cyclonedx.Property{}
	if to.Properties != nil {
		properties = *to.Properties
	}
	for _, value := range values {
		properties = append(properties, cyclonedx.Property{Name: name, Value: value})
	}
	to.Properties = &properties
}
