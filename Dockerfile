# The builder runs where the image is built, and compiles for where it runs.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w" -o /shop ./cmd/shop

# Certificates for rediss://, a folder for the embedded database, a user that
# is not root, and no shell.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /shop /shop
# Inside its container the shop is asked from outside of it. It answers to localhost
# and to the names in OVERSELL_HOSTS.
ENV OVERSELL_ADDR=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=4s --start-period=10s CMD ["/shop", "-check"]
ENTRYPOINT ["/shop"]
