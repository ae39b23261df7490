// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts makes the charts that the benchmark installs. They have the same bytes each time.
package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// archiveBytes is the approximate size of a packed large chart. Common add-ons have the same size.
const archiveBytes = 200_000

// dashboardBytes is slightly more than the size that a dashboard adds to a packed chart.
const dashboardBytes = 5500

// words make text that compresses about as well as documentation and dashboards.
var words = strings.Fields(`cluster network policy address gateway route service endpoint controller operator selector namespace
	annotation label container image replica volume storage snapshot metric alert threshold interval timeout retry backoff
	certificate issuer secret token key rotation audit event reason condition status generation finalizer owner reference
	the a of and for with when where which must should may not each other before after between default value optional`)

// Chart is one version of a chart, packed.
type Chart struct {
	Name, Version string
	// Archive is the .tgz.
	Archive []byte
}

// Large returns a chart like those of common add-ons: nine objects, whose names and fields depend on its values, in an
// archive of 200 kB. All objects have the version in a label. Charts of other seeds have other texts.
func Large(name, version string, seed uint64) (Chart, error) {
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // The chart must be the same each time.
	files := map[string]string{
		"Chart.yaml":  metadata(name, version) + "description: " + text(random, 12) + "\n",
		"values.yaml": largeValues + comments(random, 300),
		"README.md":   text(random, 9000),
	}
	for _, path := range slices.Sorted(maps.Keys(largeTemplates)) {
		files["templates/"+path] = comments(random, 25) + largeTemplates[path]
	}
	for n := 0; ; {
		packed, err := pack(name, files)
		missing := archiveBytes - len(packed)
		if err != nil || missing <= 0 {
			return Chart{Name: name, Version: version, Archive: packed}, err
		}
		for range missing/dashboardBytes + 1 {
			files[fmt.Sprintf("dashboards/%d.json", n)] = dashboard(random)
			n++
		}
	}
}

// Small returns a chart of four objects that are healthy without any controller. Three are objects with data. The
// fourth is a Service or, depending on the seed, another kind whose health HelmOp checks. A small machine can run a
// thousand clusters with this chart.
func Small(name, version string, seed uint64) (Chart, error) {
	files := map[string]string{"Chart.yaml": metadata(name, version), "values.yaml": "logLevel: info\ncluster: none\n"}
	maps.Copy(files, smallTemplates)
	followed := slices.Sorted(maps.Keys(followedTemplates))
	kind := followed[int(seed)%len(followed)]
	files["templates/"+kind] = followedTemplates[kind]
	packed, err := pack(name, files)
	return Chart{Name: name, Version: version, Archive: packed}, err
}

func metadata(name, version string) string {
	return fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\nappVersion: %q\n", name, version, version)
}

// text returns n words in several lines.
func text(random *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(words[random.IntN(len(words))])
		if random.IntN(6) == 0 {
			fmt.Fprintf(&b, "-%d", random.IntN(1000))
		}
		if i%14 == 13 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

// comments returns n words as lines of YAML comments.
func comments(random *rand.Rand, n int) string {
	return "\n# " + strings.ReplaceAll(text(random, n), "\n", "\n# ") + "\n"
}

func dashboard(random *rand.Rand) string {
	var b strings.Builder
	b.WriteString(`{"panels":[`)
	for i := range 120 {
		fmt.Fprintf(&b,
			`{"id":%d,"title":"%s","datasource":"prometheus","expr":"sum(rate(%s_%s_total{job=\"%s\"}[%dm])) by (%s)","gridPos":{"x":%d,"y":%d}},`+"\n",
			i, strings.ReplaceAll(text(random, 5), "\n", " "), words[random.IntN(len(words))], words[random.IntN(len(words))],
			words[random.IntN(len(words))], random.IntN(60), words[random.IntN(len(words))], random.IntN(24), random.IntN(900))
	}
	return strings.TrimSuffix(b.String(), ",\n") + "]}\n"
}

func pack(name string, files map[string]string) ([]byte, error) {
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zipped)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content := files[path]
		header := &tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

const largeValues = `image:
  repository: registry.example.com/addons/agent
  tag: 2.0.0
replicas: 2
logLevel: info
port: 8080
resources:
  requests:
    cpu: 50m
    memory: 64Mi
  limits:
    memory: 256Mi
podAnnotations: {}
tolerations:
- operator: Exists
rules:
- apiGroups: [""]
  resources: [pods, nodes, services]
  verbs: [get, list, watch]
`

// helpers name and label objects. As in the charts of "helm create", a label has no "+": Flux adds the digest of an OCI
// artifact to the version of the chart, after a "+".
const helpers = `{{- define "name" -}}{{ .Release.Name }}-{{ .Chart.Name }}{{- end }}
{{- define "labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}
`

// largeTemplates are nine objects. An upgrade with another log level changes three of them.
var largeTemplates = map[string]string{
	"_helpers.tpl":        helpers,
	"serviceaccount.yaml": object("v1", "ServiceAccount", true, "automountServiceAccountToken: true\n"),
	"config.yaml": object("v1", "ConfigMap", true, `data:
  agent.yaml: |
    logLevel: {{ .Values.logLevel }}
    listen: 0.0.0.0:{{ .Values.port }}
    cluster: {{ .Values.cluster }}
`),
	"credentials.yaml": object("v1", "Secret", true,
		"stringData:\n  token: {{ printf \"%s-%s\" .Release.Name .Values.cluster | sha256sum | quote }}\n"),
	"clusterrole.yaml": object("rbac.authorization.k8s.io/v1", "ClusterRole", false,
		"rules:\n{{ toYaml .Values.rules }}\n"),
	"clusterrolebinding.yaml": object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false, `roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .Release.Namespace }}-{{ include "name" . }}
subjects:
- kind: ServiceAccount
  name: {{ include "name" . }}
  namespace: {{ .Release.Namespace }}
`),
	"service.yaml": object("v1", "Service", true, `spec:
  selector:
    app.kubernetes.io/instance: {{ .Release.Name }}
  ports:
  - name: http
    port: {{ .Values.port }}
    targetPort: http
`),
	"deployment.yaml": object("apps/v1", "Deployment", true, workload("replicas: {{ .Values.replicas }}")),
	"daemonset.yaml":  object("apps/v1", "DaemonSet", true, workload("minReadySeconds: 5")),
	"pdb.yaml": object("policy/v1", "PodDisruptionBudget", true, `spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/instance: {{ .Release.Name }}
`),
}

// smallTemplates are three objects with data. An upgrade with another log level changes one of them.
var smallTemplates = map[string]string{
	"templates/_helpers.tpl":        helpers,
	"templates/serviceaccount.yaml": largeTemplates["serviceaccount.yaml"],
	"templates/config.yaml": object("v1", "ConfigMap", true,
		"data:\n  logLevel: {{ .Values.logLevel }}\n  cluster: {{ .Values.cluster }}\n"),
	"templates/role.yaml": object("rbac.authorization.k8s.io/v1", "Role", true, `rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
`),
}

// followedTemplates are objects of kinds whose health HelmOp checks. They are healthy as soon as they exist.
var followedTemplates = map[string]string{
	"autoscaler.yaml": object("autoscaling/v2", "HorizontalPodAutoscaler", true, `spec:
  maxReplicas: 3
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "name" . }}
`),
	"ingress.yaml": object("networking.k8s.io/v1", "Ingress", true, `spec:
  defaultBackend:
    service:
      name: {{ include "name" . }}
      port:
        number: 80
`),
	"service.yaml": object("v1", "Service", true, `spec:
  clusterIP: None
  selector:
    app.kubernetes.io/instance: {{ .Release.Name }}
`),
}

func object(apiVersion, kind string, namespaced bool, rest string) string {
	name := `{{ include "name" . }}`
	if !namespaced {
		name = "{{ .Release.Namespace }}-" + name
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  labels: {{- include \"labels\" . | nindent "+
		"4 }}\n%s", apiVersion, kind, name, rest)
}

func workload(first string) string {
	return "spec:\n  " + first + `
  selector:
    matchLabels:
      app.kubernetes.io/instance: {{ .Release.Name }}
  template:
    metadata:
      annotations:
        checksum/log-level: {{ .Values.logLevel | sha256sum }}
      labels: {{- include "labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ include "name" . }}
      tolerations: {{- toYaml .Values.tolerations | nindent 6 }}
      containers:
      - name: agent
        image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
        args: [--config=/etc/agent/agent.yaml]
        ports:
        - name: http
          containerPort: {{ .Values.port }}
        resources: {{- toYaml .Values.resources | nindent 10 }}
        readinessProbe:
          httpGet: {path: /readyz, port: http}
        volumeMounts:
        - {name: config, mountPath: /etc/agent}
      volumes:
      - name: config
        configMap:
          name: {{ include "name" . }}
`
}
