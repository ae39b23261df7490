# syntax=docker/dockerfile:1
# The manager's image, for users of a container engine: `docker build -t NAME .`. `make image` builds releases without a
# container engine. Cluster API's Tiltfile compiles the manager itself and uses neither.
ARG GO_IMAGE=golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static:nonroot

FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
WORKDIR /src

# The modules change less often than the sources, so a separate layer caches them.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY api/ api/
COPY controllers/ controllers/
COPY internal/ internal/
COPY *.go ./

ARG TARGETOS=linux
ARG TARGETARCH
ARG LDFLAGS="-s -w"
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false -ldflags "${LDFLAGS}" -o /manager .

FROM ${BASE_IMAGE}
WORKDIR /
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
