// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

// helpers are the named templates.
const helpers = `{{- define "helmop.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The text of a setting. Helm reads large numbers as floats, whose text has an exponent. */ -}}
{{- define "helmop.setting" -}}
{{- $value := .value -}}
{{- if kindIs "float64" $value -}}
{{- if eq $value (floor $value) -}}
{{- $value = int64 $value -}}
{{- end -}}
{{- end -}}
{{- if or (kindIs "invalid" $value) (eq (toString $value) "") -}}
{{ .default }}
{{- else -}}
{{ toString $value }}
{{- end -}}
{{- end -}}
`

// crds is the template of the CustomResourceDefinitions.
const crds = `{{- if .Values.crds.enabled }}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" }}
---
{{ $.Files.Get $path }}
{{- end }}
{{- end }}
`

const notes = `HelmOp {{ .Chart.AppVersion }} is installed in the namespace {{ .Release.Namespace }}.

  kubectl -n {{ .Release.Namespace }} rollout status deployment/helmop-controller-manager
  kubectl get helmops.addons.cluster.x-k8s.io --all-namespaces

Install the command line: https://github.com/helmop/cluster-api-addon-provider-helmop#install
`

const readme = `# The manager

HelmOp is a Cluster API addon provider. It installs Helm charts from OCI registries in workload clusters.

The chart is another way to install the manager than clusterctl. Use one of both: clusterctl does not know about an
installation by Helm. The management cluster needs Cluster API 1.11 or later.

` + "```sh" + `
helm install helmop oci://REGISTRY/charts/helmop --version VERSION --namespace helmop-system --create-namespace
kubectl label namespace helmop-system pod-security.kubernetes.io/enforce=restricted
` + "```" + `

Install it once for each management cluster: the names of its cluster-wide objects do not depend on the release.

` + "`helm show values`" + ` explains all values. ` + "`helm uninstall`" + ` keeps the CustomResourceDefinitions,
and so the HelmOps and their releases. Delete the HelmOps first if you also want to uninstall the releases.
`
