"""The commands of the batch layer: `braid batch …`."""
