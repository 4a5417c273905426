"""What may go: decisions about storage, without doing them."""
