// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const validHelmOp = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {namespace: default, generateName: validation-}
spec:
  clusterSelector: {}
  source:
    url: oci://registry.example/charts/hello
    ref: {tag: 1.0.0}
`

const validManagementHelmOp = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {namespace: default, generateName: validation-}
spec:
  managementCluster: {impersonateServiceAccountName: admin}
  source:
    url: oci://registry.example/charts/hello
    ref: {tag: 1.0.0}
`

const validRelease = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOpRelease
metadata: {namespace: default, generateName: validation-}
spec:
  clusterRef: {name: one}
  release: {name: hello, namespace: default}
  artifact: {url: oci://registry.example/charts/hello, digest: sha256:aaaa}
  valuesDigest: sha256:bbbb
  deletionPolicy: Uninstall
`

// validationCase changes one field of a valid object and names the expected answer of the API server.
type validationCase struct {
	name string
	// path is the changed field, with dots between its parts. An empty path changes nothing.
	// A nil value removes the field.
	path  string
	value any
	// field and message belong to the expected error. field defaults to path. An empty message means that the object is
	// valid.
	field, message string
}

// required and unsupported are messages of OpenAPI's own rules.
const (
	required    = "Required value"
	unsupported = "Unsupported value"
	shouldMatch = "should match"
)

// Messages of rules that several cases break.
const (
	oneTarget  = "exactly one of clusterSelector and managementCluster must be set"
	exactlyOne = "exactly one of tag, digest and semver must be set"
	urlScheme  = "url must start with oci://"
	urlForm    = "url must be oci://<host>[:<port>]/<path>, with the path in lower case and without credentials, tag, " +
		"digest or trailing slash"
	tagForm     = "tag must consist of letters, digits, '.', '_', '-' and '+'"
	digestForm  = "digest must be sha256: followed by 64 hexadecimal digits"
	intervalMsg = "interval must be at least 1s and at most 720h"
	objectName  = "must be the name of an object"
	timeoutMsg  = "timeout must be more than 0s and at most 1h"
)

var (
	aDigest         = "sha256:" + strings.Repeat("0a", 32)
	valuesRef       = map[string]any{"kind": "Secret", "name": "s"}
	referenceTo     = func(name string) map[string]any { return map[string]any{"name": name} }
	helmOpCases     = slices.Concat(sourceCases, verificationCases, specCases, variantCases)
	managementCases = []validationCase{
		{name: "as it is"},
		{name: "neither", path: "spec.managementCluster", field: "spec", message: oneTarget},
		{name: "no service account", path: "spec.managementCluster", value: map[string]any{},
			field: "spec.managementCluster.impersonateServiceAccountName", message: required},
		{name: "an empty service account", path: "spec.managementCluster.impersonateServiceAccountName", value: "",
			message: "at least 1 chars long"},
		{name: "two service accounts", path: "spec.impersonateServiceAccountName", value: "b", field: "spec",
			message: "set managementCluster.impersonateServiceAccountName instead"},
		{name: "other namespaces", path: "spec.clusterNamespaces",
			value: map[string]any{"namespaceSelector": map[string]any{}, "authorizationServiceAccountName": "a"}, field: "spec",
			message: "are for Clusters: remove them"},
		{name: "overrides", path: "spec.overrides",
			value: []any{map[string]any{"name": "a", "clusterSelector": map[string]any{}}}, field: "spec",
			message: "are for Clusters: remove them"},
		{name: "a condition of Clusters", path: "spec.clusterCondition", value: "HelmOpReady", field: "spec",
			message: "are for Clusters: remove them"},
		{name: "before the deletion of Clusters", path: "spec.beforeClusterDelete", value: map[string]any{},
			field: "spec", message: "are for Clusters: remove them"},
		{name: "dependencies", path: "spec.dependsOn", value: []any{map[string]any{"name": "a"}}},
	}
	releaseCases = []validationCase{
		{name: "as it is"},
		{name: "the management cluster", path: "spec.clusterRef.kind", value: "ManagementCluster"},
		{name: "an unknown kind", path: "spec.clusterRef.kind", value: "Node", message: unsupported},
		{name: "no Cluster", path: "spec.clusterRef", message: required},
		{name: "a Cluster without a name", path: "spec.clusterRef.name", value: "", message: "at least 1 chars long"},
		{name: "no release", path: "spec.release", message: required},
		{name: "a release name as long as Helm permits", path: "spec.release.name", value: strings.Repeat("n", 53)},
		{name: "a longer one", path: "spec.release.name", value: strings.Repeat("n", 54),
			message: "may not be more than 53 bytes"},
		{name: "a release namespace that is too long", path: "spec.release.namespace", value: strings.Repeat("n", 64),
			message: "may not be more than 63 bytes"},
		{name: "no artifact", path: "spec.artifact", message: required},
		{name: "an artifact without a digest", path: "spec.artifact.digest", message: required},
		{name: "no digest of the values", path: "spec.valuesDigest", message: required},
		{name: "an empty digest of the values", path: "spec.valuesDigest", value: "", message: "at least 1 chars long"},
		{name: "no deletion policy", path: "spec.deletionPolicy", message: required},
		{name: "an unknown deletion policy", path: "spec.deletionPolicy", value: "Keep", message: unsupported},
		{name: "a timeout of nothing", path: "spec.install.timeout", value: "0s", message: timeoutMsg},
	}
	sourceCases = []validationCase{
		{name: "as it is"},
		{name: "no source", path: "spec.source", message: required},
		{name: "no reference", path: "spec.source.ref", message: required},
		{name: "an empty reference", path: "spec.source.ref", value: map[string]any{}, message: exactlyOne},
		{name: "two references", path: "spec.source.ref", value: map[string]any{"tag": "1", "semver": "1"},
			message: exactlyOne},
		{name: "three references", path: "spec.source.ref",
			value: map[string]any{"tag": "1", "semver": "1", "digest": aDigest}, message: exactlyOne},
		{name: "a range", path: "spec.source.ref", value: map[string]any{"semver": ">=1.2 <2"}},
		{name: "an empty range", path: "spec.source.ref", value: map[string]any{"semver": ""},
			field: "spec.source.ref.semver", message: "at least 1 chars long"},
		{name: "a digest", path: "spec.source.ref", value: map[string]any{"digest": aDigest}},
		{name: "a short digest", path: "spec.source.ref", value: map[string]any{"digest": "sha256:0a"},
			field: "spec.source.ref.digest", message: digestForm},
		{name: "a digest in upper case", path: "spec.source.ref",
			value: map[string]any{"digest": strings.ToUpper(aDigest)}, field: "spec.source.ref.digest",
			message: digestForm},
		{name: "another algorithm", path: "spec.source.ref",
			value: map[string]any{"digest": "sha512:" + strings.Repeat("0a", 32)}, field: "spec.source.ref.digest",
			message: digestForm},
		{name: "a tag with build metadata", path: "spec.source.ref.tag", value: "1.0.0+build.1"},
		{name: "an empty tag", path: "spec.source.ref.tag", value: "", message: "at least 1 chars long"},
		{name: "a tag with a slash", path: "spec.source.ref.tag", value: "a/b", message: tagForm},
		{name: "a tag that begins with a dash", path: "spec.source.ref.tag", value: "-a", message: tagForm},
		{name: "a tag that is too long", path: "spec.source.ref.tag", value: strings.Repeat("a", 129),
			message: "may not be more than 128 bytes"},
		{name: "no URL", path: "spec.source.url", message: required},
		{name: "a port", path: "spec.source.url", value: "oci://127.0.0.1:5000/charts/hello"},
		{name: "an IPv6 address", path: "spec.source.url", value: "oci://[::1]:5000/hello"},
		{name: "separators in the path", path: "spec.source.url", value: "oci://registry.example/a__b/c-d.e"},
		{name: "HTTPS", path: "spec.source.url", value: "https://registry.example/charts/hello", field: "spec.source",
			message: "set chart"},
		{name: "FTP", path: "spec.source.url", value: "ftp://registry.example/charts/hello", message: urlScheme},
		{name: "a chart repository", path: "spec.source", value: chartSource()},
		{name: "a chart repository at the root of a host", path: "spec.source",
			value: chartSource("url", "https://charts.example:8443")},
		{name: "a chart repository with a slash at the end", path: "spec.source",
			value: chartSource("url", "https://charts.example/Stable/")},
		{name: "credentials in the URL of a chart repository", path: "spec.source",
			value: chartSource("url", "https://user:secret@charts.example/stable"), field: "spec.source.url",
			message: "without credentials"},
		{name: "a query in the URL of a chart repository", path: "spec.source",
			value: chartSource("url", "https://charts.example/stable?a=b"), field: "spec.source.url", message: "query"},
		{name: "a chart repository without TLS", path: "spec.source",
			value: chartSource("url", "http://charts.example/stable"), message: "http:// needs insecure"},
		{name: "an insecure chart repository", path: "spec.source",
			value: chartSource("url", "http://charts.example/stable", "insecure", true)},
		{name: "the path of a chart", path: "spec.source", value: chartSource("chart", "a/b"),
			field: "spec.source.chart", message: "chart must consist of"},
		{name: "a chart in a registry", path: "spec.source.chart", value: "hello", field: "spec.source",
			message: "chart is for chart repositories"},
		{name: "a layer in a chart repository", path: "spec.source",
			value: chartSource("layerSelector", map[string]any{"mediaType": "a/b"}), message: "has Helm charts only"},
		{name: "another format in a chart repository", path: "spec.source", value: chartSource("format", "Flux"),
			message: "has Helm charts only"},
		{name: "the format of a chart repository", path: "spec.source", value: chartSource("format", "HelmChart")},
		{name: "a cloud with a chart repository", path: "spec.source", value: chartSource("provider", "aws"),
			message: "provider is for OCI registries"},
		{name: "cosign with a chart repository", path: "spec.source",
			value:   chartSource("verify", map[string]any{"secretRef": referenceTo("keys")}),
			message: "set verify.provider to HelmProvenance"},
		{name: "provenance files", path: "spec.source",
			value: chartSource("verify", map[string]any{"provider": "HelmProvenance", "secretRef": referenceTo("keys")})},
		{name: "provenance files without keys", path: "spec.source",
			value: chartSource("verify", map[string]any{"provider": "HelmProvenance"}), field: "spec.source.verify",
			message: "HelmProvenance needs secretRef"},
		{name: "a replaced version", path: "spec.source",
			value: chartSource("ref", map[string]any{"semver": "1", "allowMovedVersion": true})},
		{name: "a replaced tag", path: "spec.source.ref", value: map[string]any{"tag": "1", "allowMovedVersion": true},
			field: "spec.source", message: "allowMovedVersion is for chart repositories"},
		{name: "no path", path: "spec.source.url", value: "oci://registry.example", message: urlForm},
		{name: "a tag in the URL", path: "spec.source.url", value: "oci://registry.example/charts/hello:1.0.0",
			message: urlForm},
		{name: "a digest in the URL", path: "spec.source.url", value: "oci://registry.example/charts/hello@" + aDigest,
			message: urlForm},
		{name: "a trailing slash", path: "spec.source.url", value: "oci://registry.example/charts/", message: urlForm},
		{name: "upper case in the path", path: "spec.source.url", value: "oci://registry.example/Charts",
			message: urlForm},
		{name: "credentials in the URL", path: "spec.source.url", value: "oci://user:secret@registry.example/charts",
			message: urlForm},
		{name: "a URL that is too long", path: "spec.source.url",
			value: "oci://registry.example/" + strings.Repeat("a", 512), message: "may not be more than 512 bytes"},
		{name: "the shortest interval", path: "spec.source.interval", value: "1s"},
		{name: "the longest interval", path: "spec.source.interval", value: "720h"},
		{name: "too short an interval", path: "spec.source.interval", value: "999ms", message: intervalMsg},
		{name: "too long an interval", path: "spec.source.interval", value: "720h1s", message: intervalMsg},
		{name: "a negative interval", path: "spec.source.interval", value: "-1m", message: intervalMsg},
		{name: "an interval without a unit", path: "spec.source.interval", value: "10", message: intervalMsg},
		{name: "an interval that is a number", path: "spec.source.interval", value: int64(10),
			message: "must be of type string"},
		{name: "credentials without a name", path: "spec.source.secretRef", value: referenceTo(""),
			field: "spec.source.secretRef.name", message: "at least 1 chars long"},
		{name: "a range and a filter", path: "spec.source.ref",
			value: map[string]any{"semver": "1", "tagFilter": "^1"}},
		{name: "a range that may go back", path: "spec.source.ref",
			value: map[string]any{"semver": "1", "allowDowngrade": true}},
		{name: "a tag that may go back", path: "spec.source.ref",
			value:   map[string]any{"tag": "1", "allowDowngrade": true},
			message: "allowDowngrade has no effect with tag or digest"},
		{name: "no deletion without a confirmation", path: "spec.maxDeletions", value: int64(0)},
		{name: "all deletions without one", path: "spec.maxDeletions", value: "100%"},
		{name: "a negative number of deletions", path: "spec.maxDeletions", value: int64(-1),
			message: "must be a number of at least 0 or a percentage from 1% to 100%"},
		{name: "too high a percentage of deletions", path: "spec.maxDeletions", value: "101%",
			message: "must be a number of at least 0 or a percentage from 1% to 100%"},
		{name: "a maintenance window", path: "spec.maintenance", value: map[string]any{"windows": []any{
			map[string]any{"schedule": "0 22 * * 1-5", "duration": "4h", "timeZone": "Europe/Berlin"}},
			"includes": []any{"Installation", "Rollback"}, "clusterLimits": "Ignored", "veto": "not now"}},
		{name: "a window that is too short", path: "spec.maintenance", value: map[string]any{"windows": []any{
			map[string]any{"schedule": "0 22 * * 1-5", "duration": "30s"}}},
			field: "spec.maintenance.windows[0].duration", message: "duration must be at least 1m and at most 168h"},
		{name: "a freeze that ends before it begins", path: "spec.maintenance", value: map[string]any{"freezes": []any{
			map[string]any{"from": "2026-12-20T00:00:00Z", "until": "2026-12-19T00:00:00Z"}}},
			field: "spec.maintenance.freezes[0]", message: "until must be later than from"},
		{name: "an unknown change that waits", path: "spec.maintenance", value: map[string]any{
			"includes": []any{"Everything"}}, field: "spec.maintenance.includes[0]", message: unsupported},
		{name: "a filter alone", path: "spec.source.ref", value: map[string]any{"tagFilter": "^main-[0-9]+$"}},
		{name: "a filter and a tag", path: "spec.source.ref", value: map[string]any{"tag": "1", "tagFilter": "1"},
			message: exactlyOne},
		{name: "a filter and a digest", path: "spec.source.ref",
			value: map[string]any{"digest": aDigest, "tagFilter": "1"}, message: exactlyOne},
		{name: "a filter that is no regular expression", path: "spec.source.ref",
			value: map[string]any{"tagFilter": "(1"}, field: "spec.source.ref.tagFilter",
			message: "error parsing regexp: missing closing )"},
		{name: "a filter that is too long", path: "spec.source.ref",
			value: map[string]any{"tagFilter": strings.Repeat("a", 257)}, field: "spec.source.ref.tagFilter",
			message: "may not be more than 256 bytes"},
		{name: "a cloud", path: "spec.source.provider", value: "azure"},
		{name: "a cloud without TLS", path: "spec.source",
			value: map[string]any{"url": "oci://registry.example/x", "ref": map[string]any{"tag": "1"},
				"provider": "aws", "insecure": true},
			message: "provider and insecure cannot be set together"},
		{name: "plain HTTP", path: "spec.source.insecure", value: true},
		{name: "records by default", path: "spec.storage", value: map[string]any{}},
		{name: "records in the cluster", path: "spec.storage", value: map[string]any{"type": "Cluster"}},
		{name: "records in a registry", path: "spec.storage",
			value: map[string]any{"formerURLs": []any{"oci://r/b"},
				"registry": map[string]any{"url": "oci://r/a", "secretRef": map[string]any{"name": "x"}}}},
		{name: "records nowhere", path: "spec.storage", value: map[string]any{"type": "Etcd"},
			field: "spec.storage.type", message: "Unsupported value"},
		{name: "records under a tag", path: "spec.storage",
			value: map[string]any{"registry": map[string]any{"url": "oci://r/a:1"}},
			field: "spec.storage.registry.url", message: "url must be oci://"},
		{name: "former records without a registry", path: "spec.storage",
			value: map[string]any{"formerURLs": []any{"oci://r/b"}}, message: "formerURLs needs registry"},
		{name: "former records in another registry", path: "spec.storage", value: map[string]any{
			"registry": map[string]any{"url": "oci://r/a"}, "formerURLs": []any{"https://r/b"}},
			field: "spec.storage.formerURLs[0]", message: "must start with oci://"},
		{name: "records with an identity in plain text", path: "spec.storage.registry",
			value:   map[string]any{"url": "oci://r/a", "provider": "aws", "insecure": true},
			message: "provider and insecure cannot be set together"},
		{name: "an unknown cloud", path: "spec.source.provider", value: "cumulus", message: unsupported},
		{name: "a service account", path: "spec.source.imagePullServiceAccountName", value: "puller"},
		{name: "a proxy without a name", path: "spec.source.proxySecretRef", value: referenceTo(""),
			field: "spec.source.proxySecretRef.name", message: "at least 1 chars long"},
		{name: "a folder of an artifact", path: "spec.source.path", value: "./clusters/production/"},
		{name: "a folder outside of the artifact", path: "spec.source.path", value: "a/../../b",
			message: "path must be a folder of the artifact"},
		{name: "an absolute folder", path: "spec.source.path", value: "/a", message: "path must be a folder of the artifact"},
		{name: "an unknown format", path: "spec.source.format", value: "Zip", message: unsupported},
		{name: "an unknown templating", path: "spec.source.templating", value: "Jinja", message: unsupported},
		{name: "a folder of a chart", path: "spec.source", value: formatSource("HelmChart", "path", "a"),
			message: "path and templating are not for Helm charts"},
		{name: "templating of a chart", path: "spec.source", value: formatSource("HelmChart", "templating", "Helm"),
			message: "path and templating are not for Helm charts"},
		{name: "a folder of a plain bundle", path: "spec.source", value: formatSource("Plain", "path", "a"),
			message: "path is not for the format Plain"},
		{name: "a layer of files", path: "spec.source",
			value:   formatSource("Files", "layerSelector", map[string]any{"mediaType": "a/b"}),
			message: "layerSelector is not for"},
		{name: "a layer of a Flux artifact", path: "spec.source",
			value: formatSource("Flux", "layerSelector", map[string]any{"mediaType": "a/b"})},
		{name: "a layer without a type", path: "spec.source.layerSelector", value: map[string]any{},
			field: "spec.source.layerSelector.mediaType", message: required},
		{name: "authorities without a name", path: "spec.source.certSecretRef", value: map[string]any{},
			field: "spec.source.certSecretRef.name", message: required},
	}
	verificationCases = []validationCase{
		{name: "cosign with keys", path: "spec.source.verify", value: map[string]any{"secretRef": referenceTo("keys")}},
		{name: "cosign with identities", path: "spec.source.verify",
			value: signedBy(map[string]any{"issuer": "https://issuer.example", "subject": "me@example"})},
		{name: "cosign with patterns", path: "spec.source.verify",
			value: signedBy(map[string]any{"issuerRegExp": "https://.*", "subjectRegExp": ".*@example"})},
		{name: "cosign with neither", path: "spec.source.verify", value: map[string]any{},
			message: "cosign needs exactly one of secretRef"},
		{name: "cosign with both", path: "spec.source.verify",
			value: map[string]any{"secretRef": referenceTo("keys"),
				"identities": []any{map[string]any{"issuer": "i", "subject": "s"}}},
			message: "cosign needs exactly one of secretRef"},
		{name: "a private root", path: "spec.source.verify",
			value: map[string]any{"trustedRootSecretRef": referenceTo("root"),
				"identities": []any{map[string]any{"issuer": "i", "subject": "s"}}}},
		{name: "a private root for keys", path: "spec.source.verify",
			value:   map[string]any{"trustedRootSecretRef": referenceTo("root"), "secretRef": referenceTo("keys")},
			message: "trustedRootSecretRef is for signatures without keys"},
		{name: "no identity", path: "spec.source.verify", value: map[string]any{"identities": []any{}},
			field: "spec.source.verify.identities", message: "should have at least 1 items"},
		{name: "an identity without an issuer", path: "spec.source.verify",
			value: signedBy(map[string]any{"subject": "s"}), field: "spec.source.verify.identities[0]",
			message: "exactly one of issuer and issuerRegExp must be set"},
		{name: "an identity without a subject", path: "spec.source.verify",
			value: signedBy(map[string]any{"issuer": "i"}), field: "spec.source.verify.identities[0]",
			message: "exactly one of subject and subjectRegExp must be set"},
		{name: "a subject twice", path: "spec.source.verify",
			value: signedBy(map[string]any{"issuer": "i", "subject": "s", "subjectRegExp": "s"}),
			field: "spec.source.verify.identities[0]", message: "exactly one of subject and subjectRegExp must be set"},
		{name: "a subject that is no regular expression", path: "spec.source.verify",
			value: signedBy(map[string]any{"issuer": "i", "subjectRegExp": "*"}),
			field: "spec.source.verify.identities[0].subjectRegExp", message: "error parsing regexp"},
		{name: "notation", path: "spec.source.verify",
			value: map[string]any{"provider": "notation", "secretRef": referenceTo("policy")}},
		{name: "notation without a policy", path: "spec.source.verify", value: map[string]any{"provider": "notation"},
			message: "notation needs secretRef"},
		{name: "notation with identities", path: "spec.source.verify",
			value: map[string]any{"provider": "notation", "secretRef": referenceTo("policy"),
				"identities": []any{map[string]any{"issuer": "i", "subject": "s"}}},
			message: "identities and trustedRootSecretRef are for the provider cosign"},
		{name: "provenance files in a registry", path: "spec.source.verify",
			value: map[string]any{"provider": "HelmProvenance", "secretRef": referenceTo("keys")}, field: "spec.source",
			message: "HelmProvenance is for chart repositories"},
		{name: "an unknown provider", path: "spec.source.verify",
			value: map[string]any{"provider": "gpg", "secretRef": referenceTo("keys")},
			field: "spec.source.verify.provider", message: unsupported},
	}
	specCases = []validationCase{
		{name: "no selector", path: "spec.clusterSelector", field: "spec", message: oneTarget},
		{name: "a selector and the management cluster", path: "spec.managementCluster",
			value: map[string]any{"impersonateServiceAccountName": "a"}, field: "spec", message: oneTarget},
		{name: "values", path: "spec.values", value: map[string]any{"a": map[string]any{"b": []any{int64(1), "two"}}}},
		{name: "values that are a text", path: "spec.values", value: "a: b", message: "must be of type object"},
		{name: "values that are a list", path: "spec.values", value: []any{}, message: "must be of type object"},
		{name: "a template that is too long", path: "spec.valuesTemplate", value: strings.Repeat("a", 262145),
			message: "may not be more than 262144 bytes"},
		{name: "the other delimiters", path: "spec.templateDelimiters", value: "Dollar"},
		{name: "unknown delimiters", path: "spec.templateDelimiters", value: "Square", message: unsupported},
		{name: "the other deletion policy", path: "spec.deletionPolicy", value: "Orphan"},
		{name: "an unknown deletion policy", path: "spec.deletionPolicy", value: "Keep", message: unsupported},
		{name: "values from an unknown kind", path: "spec.valuesFrom",
			value: []any{map[string]any{"kind": "Pod", "name": "p"}}, field: "spec.valuesFrom[0].kind",
			message: unsupported},
		{name: "values from nothing", path: "spec.valuesFrom", value: []any{map[string]any{"kind": "Secret"}},
			field: "spec.valuesFrom[0].name", message: required},
		{name: "values from an object of each Cluster", path: "spec.valuesFrom",
			value: []any{valuesFrom("{{ .Cluster.metadata.name }}-cloud-config", "")}},
		{name: "values from an object of each Cluster, with the other delimiters", path: "spec.valuesFrom",
			value: []any{valuesFrom("cloud-${ .Cluster.metadata.name }", "")}},
		{name: "values from the longest name", path: "spec.valuesFrom",
			value: []any{valuesFrom(strings.Repeat("n", 253), "")}},
		{name: "values from too long a name", path: "spec.valuesFrom",
			value: []any{valuesFrom(strings.Repeat("n", 254), "")}, field: "spec.valuesFrom[0].name", message: objectName},
		{name: "values from a name in capitals", path: "spec.valuesFrom",
			value: []any{valuesFrom("Cloud", "")}, field: "spec.valuesFrom[0].name", message: objectName},
		{name: "values from a name that ends with a dash", path: "spec.valuesFrom",
			value: []any{valuesFrom("cloud-", "")}, field: "spec.valuesFrom[0].name", message: objectName},
		{name: "values from another namespace", path: "spec.valuesFrom",
			value: []any{valuesFrom("other/cloud", "")}, field: "spec.valuesFrom[0].name", message: objectName},
		{name: "values from too long a template", path: "spec.valuesFrom",
			value: []any{valuesFrom("{{"+strings.Repeat(" ", 1021)+"}}", "")}, field: "spec.valuesFrom[0].name",
			message: "may not be more than 1024 bytes"},
		{name: "one value", path: "spec.valuesFrom", value: []any{valuesFrom("s", "cloud.password")}},
		{name: "one value in lists", path: "spec.valuesFrom", value: []any{valuesFrom("s", "a[0][12].b_c-d[999]")}},
		{name: "one value at a key with a dot", path: "spec.valuesFrom", value: []any{valuesFrom("s", `annotations.a\.b/c`)}},
		{name: "one value nowhere", path: "spec.valuesFrom", value: []any{valuesFrom("s", "a..b")},
			field: "spec.valuesFrom[0].targetPath", message: shouldMatch},
		{name: "one value at an index that is no number", path: "spec.valuesFrom", value: []any{valuesFrom("s", "a[b]")},
			field: "spec.valuesFrom[0].targetPath", message: shouldMatch},
		{name: "one value at too high an index", path: "spec.valuesFrom", value: []any{valuesFrom("s", "a[1000]")},
			field: "spec.valuesFrom[0].targetPath", message: shouldMatch},
		{name: "one value at two places", path: "spec.valuesFrom", value: []any{valuesFrom("s", "a,b")},
			field: "spec.valuesFrom[0].targetPath", message: shouldMatch},
		{name: "one value at an index of nothing", path: "spec.valuesFrom", value: []any{valuesFrom("s", "[0]")},
			field: "spec.valuesFrom[0].targetPath", message: shouldMatch},
		{name: "values from too many", path: "spec.valuesFrom", value: repeated(valuesRef, 33),
			message: "must have at most 32 items"},
		{name: "a release name that is too long", path: "spec.release.name", value: strings.Repeat("a", 1025),
			message: "may not be more than 1024 bytes"},
		{name: "the longest timeout", path: "spec.install.timeout", value: "1h"},
		{name: "an install timeout of nothing", path: "spec.install.timeout", value: "0s", message: timeoutMsg},
		{name: "too long an install timeout", path: "spec.install.timeout", value: "61m", message: timeoutMsg},
		{name: "an upgrade timeout of nothing", path: "spec.upgrade.timeout", value: "0s", message: timeoutMsg},
		{name: "too long an upgrade timeout", path: "spec.upgrade.timeout", value: "2h", message: timeoutMsg},
		{name: "a negative uninstall timeout", path: "spec.uninstall.timeout", value: "-1s", message: timeoutMsg},
		{name: "no limit of the history", path: "spec.upgrade.maxHistory", value: int64(0)},
		{name: "a negative history", path: "spec.upgrade.maxHistory", value: int64(-1),
			message: "should be greater than or equal to 0"},
		{name: "too long a history", path: "spec.upgrade.maxHistory", value: int64(1001),
			message: "should be less than or equal to 1000"},
	}
)

// variantCases check the rules of overrides and refsByKubernetesVersion.
var variantCases = []validationCase{
	{name: "overrides", path: "spec.overrides",
		value: []any{
			override("a", map[string]any{"values": map[string]any{"a": nil}, "ref": map[string]any{"tag": "1"}}),
			override("b", nil),
		}},
	{name: "two overrides of one name", path: "spec.overrides", value: []any{override("a", nil), override("a", nil)},
		field: "spec.overrides[1]", message: "Duplicate value"},
	{name: "an override without a selector", path: "spec.overrides", value: []any{map[string]any{"name": "a"}},
		field: "spec.overrides[0].clusterSelector", message: required},
	{name: "an override with two references", path: "spec.overrides",
		value: []any{override("a", map[string]any{"ref": map[string]any{"tag": "1", "semver": "1"}})},
		field: "spec.overrides[0].ref", message: exactlyOne},
	{name: "an override with a timeout of nothing", path: "spec.overrides",
		value: []any{
			override("a", map[string]any{"upgrade": map[string]any{"timeout": "0s"}}),
		},
		field: "spec.overrides[0].upgrade.timeout", message: timeoutMsg},
	{name: "an override with all that shapes a release", path: "spec.overrides",
		value: []any{
			override("a", map[string]any{
				"valuesFrom": []any{valuesFrom("{{ .Cluster.metadata.name }}-cloud", "a.b[0]")}, "valuesTemplate": "a: 1",
				"postRender": map[string]any{"commonMetadata": map[string]any{"labels": map[string]any{"a": "b"}}},
				"install":    map[string]any{"timeout": "1m"}, "upgrade": map[string]any{"timeout": "1m"},
				"rollback": map[string]any{"timeout": "1m"}, "uninstall": map[string]any{"timeout": "1m"},
			}),
		}},
	{name: "an override with values from too many", path: "spec.overrides",
		value: []any{override("a", map[string]any{"valuesFrom": repeated(valuesRef, 33)})},
		field: "spec.overrides[0].valuesFrom", message: "must have at most 32 items"},
	{name: "an override with values from no object's name", path: "spec.overrides",
		value: []any{override("a", map[string]any{"valuesFrom": []any{valuesFrom("Cloud", "a")}})},
		field: "spec.overrides[0].valuesFrom[0].name", message: objectName},
	{name: "an override with too long a values template", path: "spec.overrides",
		value: []any{override("a", map[string]any{"valuesTemplate": strings.Repeat("a", 262145)})},
		field: "spec.overrides[0].valuesTemplate", message: "may not be more than 262144 bytes"},
	{name: "an override with too many patches", path: "spec.overrides",
		value: []any{
			override("a", map[string]any{"postRender": map[string]any{"patches": repeated(map[string]any{"patch": "a"}, 65)}}),
		},
		field: "spec.overrides[0].postRender.patches", message: "must have at most 64 items"},
	{name: "an override whose values are no map", path: "spec.overrides",
		value: []any{override("a", map[string]any{"values": "a"})}, field: "spec.overrides[0].values",
		message: "must be of type object"},
	{name: "as many overrides and versions as there may be", path: "spec",
		value: map[string]any{
			"clusterSelector": map[string]any{},
			"source": map[string]any{
				"url": "oci://registry.example/charts/hello", "ref": map[string]any{"tag": "1.0.0"},
			},
			"overrides": manyOverrides(32),
			"refsByKubernetesVersion": repeated(map[string]any{
				"kubernetesVersion": ">=1.35", "ref": map[string]any{"tag": "1"},
			}, 16),
		}},
	{name: "too many overrides", path: "spec.overrides", value: manyOverrides(33),
		message: "must have at most 32 items"},
	{name: "no range", path: "spec.refsByKubernetesVersion",
		value: []any{map[string]any{"kubernetesVersion": "", "ref": map[string]any{"tag": "1"}}},
		field: "spec.refsByKubernetesVersion[0].kubernetesVersion", message: "at least 1 chars long"},
	{name: "a range for nothing", path: "spec.refsByKubernetesVersion",
		value: []any{map[string]any{"kubernetesVersion": "1.35.x"}},
		field: "spec.refsByKubernetesVersion[0].ref", message: required},
}

// valuesFrom returns a reference to a Secret, with a target path if there is one.
func valuesFrom(name, targetPath string) map[string]any {
	ref := map[string]any{"kind": "Secret", "name": name}
	if targetPath != "" {
		ref["targetPath"] = targetPath
	}
	return ref
}

// override returns an override for all Clusters, with further fields.
func override(name string, more map[string]any) map[string]any {
	o := map[string]any{"name": name, "clusterSelector": map[string]any{}}
	maps.Copy(o, more)
	return o
}

func manyOverrides(n int) []any {
	overrides := make([]any, n)
	for i := range overrides {
		ref := map[string]any{"tag": fmt.Sprintf("1.0.%d", i)}
		overrides[i] = override(fmt.Sprintf("o%d", i), map[string]any{"ref": ref})
	}
	return overrides
}

// signedBy returns a verification that requires a cosign signature by one identity.
func signedBy(identity map[string]any) map[string]any {
	return map[string]any{"identities": []any{identity}}
}

// formatSource returns a source of a format, with one more field.
func formatSource(format, field string, value any) map[string]any {
	return map[string]any{
		"url": "oci://registry.test/x", "ref": map[string]any{"tag": "1"}, "format": format, field: value,
	}
}

func repeated(item map[string]any, n int) []any {
	items := make([]any, n)
	for i := range items {
		items[i] = item
	}
	return items
}

// chartSource returns a source in a chart repository with more fields, given as names and values.
func chartSource(fields ...any) map[string]any {
	source := map[string]any{"url": "https://charts.example/stable", "chart": "hello",
		"ref": map[string]any{"tag": "1.0.0"}}
	for i := 0; i < len(fields); i += 2 {
		source[fmt.Sprint(fields[i])] = fields[i+1]
	}
	return source
}
