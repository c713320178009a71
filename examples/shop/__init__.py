"""A shop: mails, pictures, texts and webhooks."""
